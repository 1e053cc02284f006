# proto/NAME.proto -> proto/NAME.pb-c.{c,h} in the build folder; sets ot_proto_sources.

file(GLOB ot_protos CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/proto/*.proto)
set(ot_proto_sources)
if(ot_protos)
    find_program(OT_PROTOC_C NAMES protoc-c)
    if(NOT OT_PROTOC_C)
        message(FATAL_ERROR "protoc-c is missing. Debian: apt-get install protobuf-c-compiler")
    endif()
    file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/proto)
endif()
foreach(proto IN LISTS ot_protos)
    get_filename_component(name ${proto} NAME_WE)
    set(out ${CMAKE_CURRENT_BINARY_DIR}/proto/${name}.pb-c)
    add_custom_command(OUTPUT ${out}.c ${out}.h
        COMMAND ${OT_PROTOC_C} --c_out=${CMAKE_CURRENT_BINARY_DIR} -I${CMAKE_CURRENT_SOURCE_DIR}
                proto/${name}.proto
        DEPENDS ${proto} WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} VERBATIM)
    # Generated code is not held to our warnings.
    set_source_files_properties(${out}.c PROPERTIES COMPILE_OPTIONS -w)
    list(APPEND ot_proto_sources ${out}.c ${out}.h)
endforeach()
