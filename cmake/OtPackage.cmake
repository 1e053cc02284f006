# What other programs build with: the library, its header, and how pkg-config ("onnxtrain") and CMake ("onnxtrain::onnxtrain") find them.

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/onnxtrain)
set_target_properties(onnxtrain_shared PROPERTIES EXPORT_NAME onnxtrain)
install(TARGETS onnxtrain_shared EXPORT onnxtrain LIBRARY)
install(FILES runtime/onnxtrain.h TYPE INCLUDE)
install(EXPORT onnxtrain NAMESPACE onnxtrain:: DESTINATION ${package} FILE onnxtrainConfig.cmake)

include(CMakePackageConfigHelpers)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/onnxtrainConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/onnxtrainConfigVersion.cmake DESTINATION ${package})

# Relative to the file itself: an installed folder can be moved.
file(RELATIVE_PATH ot_up ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(${CMAKE_CURRENT_LIST_DIR}/onnxtrain.pc.in onnxtrain.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/onnxtrain.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
