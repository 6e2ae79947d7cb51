# Run at build time: writes OUTPUT, a header with the git revision of SOURCE, if it changed. Sources
# that came without git say so.
find_program(GIT git)
set(revision "")
if(GIT AND EXISTS "${SOURCE}/.git")
  # The owner of the sources may be another user: naming the folder safe asks git all the same.
  execute_process(COMMAND "${GIT}" -c "safe.directory=*" "--git-dir=${SOURCE}/.git"
                          "--work-tree=${SOURCE}" describe --always --dirty --abbrev=12
                  OUTPUT_VARIABLE revision OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT revision)
  set(revision "unknown")
endif()
set(header "#pragma once\n\nnamespace trainbench {\n
inline constexpr char kGitRevision[] = \"${revision}\";\n\n}  // namespace trainbench\n")
if(EXISTS "${OUTPUT}")
  file(READ "${OUTPUT}" previous)
endif()
if(NOT header STREQUAL "${previous}")
  file(WRITE "${OUTPUT}" "${header}")
endif()
