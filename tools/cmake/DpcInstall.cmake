# What `cmake --install` copies, and the Debian package made of it by `cpack`.
# Programs look for their data in ../share/dpc and the plugin in ../lib.
include(GNUInstallDirs)
# MLIR's and LLVM's shared libraries lie in a folder of their own.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

# Examples and the manual lie to the README as they do in the sources, so that
# the paths in it hold; the reference is made when it is installed.
function(dpc_install_documentation)
  install(FILES "${CMAKE_SOURCE_DIR}/README.md" "${CMAKE_SOURCE_DIR}/LICENSE"
          DESTINATION share/doc/dpc)
  install(DIRECTORY "${CMAKE_SOURCE_DIR}/examples" DESTINATION share/doc/dpc
          FILES_MATCHING PATTERN "*.md" PATTERN "*.py" PATTERN "*.json")
  if(TARGET dpc-opt)
    set(reference "${CMAKE_CURRENT_BINARY_DIR}/reference")
    install(CODE "
      execute_process(COMMAND \"${CMAKE_COMMAND}\" -E env \"DPC_BUILD_DIR=${CMAKE_BINARY_DIR}\"
                              \"${CMAKE_SOURCE_DIR}/tools/reference\" \"${reference}\"
                      OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)")
    install(DIRECTORY "${reference}" DESTINATION share/doc/dpc)
  endif()
endfunction()

# Called behind the folders that make the programs.
function(dpc_install)
  foreach(tool dpc-opt dpc-run dpc-model dpc-validate)
    if(TARGET ${tool})
      install(TARGETS ${tool} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
    endif()
  endforeach()
  if(TARGET dpc_cuda)
    install(TARGETS dpc_cuda LIBRARY DESTINATION lib)
  endif()
  foreach(folder devices software)
    install(DIRECTORY "${CMAKE_SOURCE_DIR}/cost-model/${folder}/"
            DESTINATION share/dpc/${folder} FILES_MATCHING PATTERN "*.json")
  endforeach()
  install(DIRECTORY "${CMAKE_SOURCE_DIR}/examples/clusters/"
          DESTINATION share/dpc/clusters FILES_MATCHING PATTERN "*.json")
  dpc_install_documentation()
  # Made by the programs when they are installed.
  foreach(tool dpc-opt dpc-run dpc-model dpc-validate)
    if(TARGET ${tool})
      set(completions "${CMAKE_CURRENT_BINARY_DIR}/completions")
      install(CODE "
        file(MAKE_DIRECTORY \"${completions}\")
        foreach(shell bash zsh)
          execute_process(COMMAND \"${CMAKE_BINARY_DIR}/bin/${tool}\" --completion=\${shell}
                          OUTPUT_FILE \"${completions}/${tool}.\${shell}\"
                          COMMAND_ERROR_IS_FATAL ANY)
        endforeach()")
      install(FILES "${completions}/${tool}.bash" RENAME ${tool}
              DESTINATION share/bash-completion/completions)
      install(FILES "${completions}/${tool}.zsh" RENAME _${tool}
              DESTINATION share/zsh/vendor-completions)
    endif()
  endforeach()
endfunction()

set(CPACK_PACKAGE_NAME dpc)
set(CPACK_PACKAGE_CONTACT "the dpc maintainers <maintainers@dpc.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "automatic parallelization compiler")
set(CPACK_PACKAGE_DESCRIPTION
    "Compiles a model and a description of a cluster into a verified, explained,\n runnable distributed training program.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# Libraries by dpkg-shlibdeps; kernels are linked by lld.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "lld-22")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "openmpi-bin")
set(CPACK_PROJECT_CONFIG_FILE "${CMAKE_CURRENT_LIST_DIR}/CheckPacking.cmake")
include(CPack)
