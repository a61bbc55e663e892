# Warnings for all targets. The source tree has none.
add_compile_options(-Wall -Wextra -Wno-unused-parameter)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_compile_options(-Wno-unused-command-line-argument)
  add_link_options(-fuse-ld=lld)
endif()
