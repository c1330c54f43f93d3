# Owns the text of version.cpp, made anew in every build: a commit that was read while CMake configured names, after the next
# commit, a program that was not built from it.
#
#   vindex_version_text(TARGET TEMPLATE FILE)   every build of TARGET, a library of FILE, first makes FILE of TEMPLATE
#   cmake -D GIT=... -D SOURCE=... -D TEMPLATE=... -D FILE=... [-D NAME=VALUE...] -P version_text.cmake
#
# FILE is written only where its text changed, so nothing is compiled or linked again otherwise, and it is the only source
# that holds the commit, so a compiler cache keeps all others. "unknown" without git and outside a checkout of our own: a
# source archive in somebody's repository is not at that repository's commit.

function(vindex_version_text target template file)
  find_package(Git QUIET)
  add_custom_target(${target}_text
    COMMAND ${CMAKE_COMMAND} -D "GIT=${GIT_EXECUTABLE}" -D "SOURCE=${PROJECT_SOURCE_DIR}" -D "TEMPLATE=${template}"
            -D "FILE=${file}" -D "PROJECT_VERSION=${PROJECT_VERSION}" -D "CMAKE_CXX_COMPILER_ID=${CMAKE_CXX_COMPILER_ID}"
            -D "CMAKE_CXX_COMPILER_VERSION=${CMAKE_CXX_COMPILER_VERSION}" -P "${CMAKE_CURRENT_FUNCTION_LIST_FILE}"
    BYPRODUCTS ${file}
    COMMENT "Asking which commit is built" VERBATIM)
  add_dependencies(${target} ${target}_text)
endfunction()

if(NOT CMAKE_SCRIPT_MODE_FILE)
  return()
endif()

# Runs git in the sources without the lock of its index: a build must not make somebody's commit fail.
macro(ask_git variable)
  execute_process(COMMAND "${GIT}" --no-optional-locks -C "${SOURCE}" ${ARGN} OUTPUT_VARIABLE ${variable}
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE git_failed)
  if(git_failed)
    set(${variable} "")
  endif()
endmacro()

set(VINDEX_COMMIT "unknown")
if(GIT)
  ask_git(top rev-parse --show-toplevel)
  file(REAL_PATH "${SOURCE}" source)
  if(top)
    file(REAL_PATH "${top}" top)
  endif()
  if(top STREQUAL source)
    ask_git(described describe --always)
    if(described)
      # As `describe --dirty` has it, which would lock the index.
      ask_git(changes status --porcelain --untracked-files=no)
      if(changes)
        string(APPEND described "-dirty")
      endif()
      set(VINDEX_COMMIT "${described}")
    endif()
  endif()
endif()
configure_file("${TEMPLATE}" "${FILE}" @ONLY)
