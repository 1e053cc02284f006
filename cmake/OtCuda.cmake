# Finds the headers and libraries of the CUDA module; sets OT_CUDA if all exist, else ot_cuda_why to the reason.
#
# NVIDIA's packages put them below /usr/local/cuda; the wheels nvidia-cuda-runtime, -cuda-nvrtc, -cublas and
# nvidia-cudnn-cu13 below site-packages/nvidia.  Both are searched; OT_CUDA_ROOT is another folder.

set(OT_CUDA_ROOT "" CACHE PATH "Folder with include/ and lib/ of CUDA and cuDNN, or with the nvidia wheels")
set(ot_cuda_places "")
foreach(root ${OT_CUDA_ROOT} $ENV{VIRTUAL_ENV} $ENV{CUDA_PATH} $ENV{CUDA_HOME} /usr/local/cuda /opt/cuda /usr /usr/local $ENV{HOME}/.local)
    file(GLOB found ${root}/nvidia/* ${root}/lib/python3*/site-packages/nvidia/* ${root}/lib/python3*/dist-packages/nvidia/*)
    list(APPEND ot_cuda_places ${root} ${found})
endforeach()

# ot_cuda_need(NAME HEADER LIBRARY FILES...): FILES are versioned names, which is all that wheels carry (and what
# find_library does not look for). The first folder with one is used; OT_CUDA_ROOT comes first.
set(ot_cuda_why "")
function(ot_cuda_need name header library)
    find_path(OT_CUDA_${name}_INCLUDE ${header} HINTS ${ot_cuda_places} PATH_SUFFIXES include)
    foreach(place IN LISTS ot_cuda_places)
        foreach(file lib${library}.so ${ARGN})
            foreach(folder lib lib64)
                if(NOT OT_CUDA_${name}_LIBRARY AND EXISTS ${place}/${folder}/${file})
                    set(OT_CUDA_${name}_LIBRARY ${place}/${folder}/${file} CACHE FILEPATH "${name} of CUDA")
                endif()
            endforeach()
        endforeach()
    endforeach()
    find_library(OT_CUDA_${name}_LIBRARY ${library})
    if(NOT OT_CUDA_${name}_INCLUDE OR NOT OT_CUDA_${name}_LIBRARY)
        set(ot_cuda_why "${ot_cuda_why} ${name} (${header}, lib${library})" PARENT_SCOPE)
    endif()
endfunction()
ot_cuda_need(runtime cuda_runtime_api.h cudart libcudart.so.13 libcudart.so.12)
ot_cuda_need(nvrtc nvrtc.h nvrtc libnvrtc.so.13 libnvrtc.so.12)
ot_cuda_need(cublasLt cublasLt.h cublasLt libcublasLt.so.13 libcublasLt.so.12)
ot_cuda_need(cuDNN cudnn.h cudnn libcudnn.so.9)

set(OT_CUDA OFF)
if(ot_cuda_why)
    string(STRIP "${ot_cuda_why}" ot_cuda_why)
    message(STATUS "CUDA module: not built; missing: ${ot_cuda_why}")
else()
    set(OT_CUDA ON)
    message(STATUS "CUDA module: ${OT_CUDA_runtime_LIBRARY}, ${OT_CUDA_cuDNN_LIBRARY}, ${OT_CUDA_cublasLt_LIBRARY}, ${OT_CUDA_nvrtc_LIBRARY}")
endif()

# ot_cuda_module(NAME LIBRARIES...): the module from its sources, linked against these.
function(ot_cuda_module name)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/backends/cuda/*.c ${PROJECT_SOURCE_DIR}/ops/cuda/*.c
        ${PROJECT_SOURCE_DIR}/ops/cuda/cudnn/*.c)
    set_source_files_properties(${ot_cuda_texts_c} PROPERTIES GENERATED TRUE) # known to the folder of the rule only
    add_library(${name} MODULE ${sources} ${ot_cuda_texts_c})
    set_target_properties(${name} PROPERTIES PREFIX lib LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
    target_include_directories(${name} SYSTEM PRIVATE ${OT_CUDA_runtime_INCLUDE} ${OT_CUDA_nvrtc_INCLUDE}
        ${OT_CUDA_cublasLt_INCLUDE} ${OT_CUDA_cuDNN_INCLUDE} ${OT_RANDOM123_INCLUDE})
    target_link_libraries(${name} PRIVATE ot_flags ot_strict ${ARGN} Threads::Threads m)
    if(NOT OT_SANITIZE) # the sanitizers' own symbols come with the program
        target_link_options(${name} PRIVATE -Wl,-z,defs)
    endif()
endfunction()

if(OT_CUDA)
    file(GLOB ot_cuda_texts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/ops/cuda/*.cu ${PROJECT_SOURCE_DIR}/ops/cuda/*.cuh
        ${PROJECT_SOURCE_DIR}/ops/cuda/cudnn/*.cu ${PROJECT_SOURCE_DIR}/ops/cuda/cudnn/*.cuh)
    list(APPEND ot_cuda_texts ${PROJECT_SOURCE_DIR}/ops/kernels/functions.h)
    set(ot_cuda_texts_c ${PROJECT_BINARY_DIR}/cuda_texts.c)
    string(REPLACE ";" "," ot_cuda_texts_list "${ot_cuda_texts}")
    add_custom_command(OUTPUT ${ot_cuda_texts_c}
        COMMAND ${CMAKE_COMMAND} -DOUT=${ot_cuda_texts_c} -DFILES=${ot_cuda_texts_list} -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
        DEPENDS ${ot_cuda_texts} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
    add_custom_target(ot_cuda_texts DEPENDS ${ot_cuda_texts_c})
    ot_cuda_module(onnxtrain-cuda ${OT_CUDA_runtime_LIBRARY} ${OT_CUDA_nvrtc_LIBRARY} ${OT_CUDA_cublasLt_LIBRARY} ${OT_CUDA_cuDNN_LIBRARY})
    add_dependencies(onnxtrain-cuda ot_cuda_texts)
    install(TARGETS onnxtrain-cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
