# Every library the program needs: the interface target ot_dependencies.

add_library(ot_dependencies INTERFACE)

# ot_need(NAME HEADER LIBRARY PACKAGE): a library that has only a header and a file.
function(ot_need name header library package)
    find_path(OT_${name}_INCLUDE ${header})
    find_library(OT_${name}_LIBRARY ${library})
    if(NOT OT_${name}_INCLUDE OR NOT OT_${name}_LIBRARY)
        message(FATAL_ERROR "${name} is missing (${header}, lib${library}). Debian: apt-get install ${package}")
    endif()
    target_include_directories(ot_dependencies SYSTEM INTERFACE ${OT_${name}_INCLUDE})
    target_link_libraries(ot_dependencies INTERFACE ${OT_${name}_LIBRARY})
endfunction()

ot_need(protobuf-c protobuf-c/protobuf-c.h protobuf-c libprotobuf-c-dev)
ot_need(jansson jansson.h jansson libjansson-dev)
ot_need(inih ini.h inih libinih-dev)
ot_need(zlib zlib.h z zlib1g-dev)
# Not by its CMake package: Debian's asks for OpenCL's headers, which a CPU build has no use for.
ot_need(oneDNN oneapi/dnnl/dnnl.h dnnl libdnnl-dev)

find_path(OT_RANDOM123_INCLUDE Random123/philox.h)
if(NOT OT_RANDOM123_INCLUDE)
    message(FATAL_ERROR "Random123 is missing (Random123/philox.h). Debian: apt-get install librandom123-dev")
endif()
target_include_directories(ot_dependencies SYSTEM INTERFACE ${OT_RANDOM123_INCLUDE})

find_package(OpenMP QUIET COMPONENTS C)
if(NOT OpenMP_C_FOUND)
    message(FATAL_ERROR "OpenMP is missing for ${CMAKE_C_COMPILER}. Debian: apt-get install gcc, or libomp-dev for clang")
endif()
target_link_libraries(ot_dependencies INTERFACE OpenMP::OpenMP_C)

# glibc's vector mathematics: there on x86-64, not everywhere.
find_library(OT_MVEC_LIBRARY mvec)
if(OT_MVEC_LIBRARY)
    target_link_libraries(ot_dependencies INTERFACE ${OT_MVEC_LIBRARY})
endif()

find_package(Threads REQUIRED)
target_link_libraries(ot_dependencies INTERFACE Threads::Threads m)
