# Installation with `cmake --install`, and the Debian package that `cpack` builds.
# Programs search ../share/dpc for their data and ../lib for the plugin.
include(GNUInstallDirs)
# The shared libraries of MLIR and LLVM are in a separate folder.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

# Examples and the manual keep their places relative to the README, which links to
# them. The reference is generated during installation.
function(dpc_install_documentation)
  install(FILES "${CMAKE_SOURCE_DIR}/README.md" "${CMAKE_SOURCE_DIR}/LICENSE"
          DESTINATION share/doc/dpc)
  install(DIRECTORY "${CMAKE_SOURCE_DIR}/examples" DESTINATION share/doc/dpc
          FILES_MATCHING PATTERN "*.md" PATTERN "*.py" PATTERN "*.json")
  # Messages name the lists of supported operators.
  foreach(frontend onnx torch stablehlo)
    install(FILES "${CMAKE_SOURCE_DIR}/frontends/${frontend}/README.md"
            DESTINATION share/doc/dpc/frontends/${frontend})
  endforeach()
  if(TARGET dpc-opt)
    set(reference "${CMAKE_CURRENT_BINARY_DIR}/reference")
    install(CODE "
      execute_process(COMMAND \"${CMAKE_COMMAND}\" -E env \"DPC_BUILD_DIR=${CMAKE_BINARY_DIR}\"
                              \"${CMAKE_SOURCE_DIR}/tools/reference\" \"${reference}\"
                      OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)")
    install(DIRECTORY "${reference}" DESTINATION share/doc/dpc)
  endif()
endfunction()

# Call this after the programs are defined.
function(dpc_install)
  foreach(tool dpc-opt dpc-run dpc-model dpc-validate)
    if(TARGET ${tool})
      install(TARGETS ${tool} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
    endif()
  endforeach()
  if(TARGET dpc_cuda)
    install(TARGETS dpc_cuda LIBRARY DESTINATION lib)
  endif()
  foreach(folder devices measured software)
    install(DIRECTORY "${CMAKE_SOURCE_DIR}/cost-model/${folder}/"
            DESTINATION share/dpc/${folder} FILES_MATCHING PATTERN "*.json")
  endforeach()
  install(DIRECTORY "${CMAKE_SOURCE_DIR}/examples/clusters/"
          DESTINATION share/dpc/clusters FILES_MATCHING PATTERN "*.json")
  dpc_install_documentation()
  # The programs write their completion scripts during installation.
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
