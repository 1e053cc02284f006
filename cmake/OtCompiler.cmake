# Language, warnings, sanitizers: the interface targets ot_flags, and ot_strict for everything other than tests.

if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Release or Debug" FORCE)
endif()
if(CMAKE_C_FLAGS_RELEASE STREQUAL "-O3 -DNDEBUG") # CMake's own; flags that a user gives are kept
    set(CMAKE_C_FLAGS_RELEASE "-O2 -g -DNDEBUG")
    if(OT_SANITIZE) # compiles a third faster; a report still has its lines
        set(CMAKE_C_FLAGS_RELEASE "-O1 -g1 -DNDEBUG")
    endif()
endif()
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_program(OT_CCACHE ccache)
if(OT_CCACHE AND NOT CMAKE_C_COMPILER_LAUNCHER)
    set(CMAKE_C_COMPILER_LAUNCHER ${OT_CCACHE})
endif()

add_library(ot_flags INTERFACE)
target_compile_definitions(ot_flags INTERFACE _GNU_SOURCE)
target_compile_options(ot_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow)
if(OT_WERROR AND NOT OT_SANITIZE) # with less optimization some warnings are false; the plain build has them all
    target_compile_options(ot_flags INTERFACE -Werror)
endif()
if(CMAKE_C_COMPILER_ID MATCHES Clang) # an extension of GNU C that C23 took over
    target_compile_options(ot_flags INTERFACE -Wno-gnu-zero-variadic-macro-arguments)
    target_compile_options(ot_flags INTERFACE -Wno-missing-field-initializers) # told of { "T" } inside a designated one, too
endif()
# For the library and the program. clang also warns of conversions from float to double and from enum to int.
add_library(ot_strict INTERFACE)
target_compile_options(ot_strict INTERFACE -Wconversion -Wcast-qual)
if(CMAKE_C_COMPILER_ID MATCHES Clang)
    target_compile_options(ot_strict INTERFACE -Wno-sign-conversion)
else()
    target_compile_options(ot_strict INTERFACE -Wdouble-promotion)
endif()
if(OT_SANITIZE)
    set(ot_sanitizers -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_compile_options(ot_flags INTERFACE ${ot_sanitizers} -UNDEBUG)
    target_link_options(ot_flags INTERFACE ${ot_sanitizers})
    # 640,000 places that say where a check is would be relocated at each start: a third of the time of a short call, and of the file.
    target_link_options(ot_flags INTERFACE $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>)
endif()
if(OT_FUZZ) # edges are counted everywhere; the main() of libFuzzer is linked to the targets alone
    target_compile_options(ot_flags INTERFACE -fsanitize=fuzzer-no-link -Wno-error) # warnings are for the other builds
    target_link_options(ot_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# ot_vector_flags(SOURCES...): the loops of Map, attention, recurrent steps and convolutions are built once per instruction set and
# chosen at start.  No contraction: the same bits whether or not the machine has fused multiply-add (the products of the others want it).
# Integers wrap.
# The reference of Map keeps plain functions, and wraps as well.
function(ot_vector_flags)
    set(always -O3)
    if(OT_SANITIZE) # unrolled loops full of checks take -O3 five times as long; the first three check what the address sanitizer does too
        set(always -O1 -fno-sanitize=null,object-size,pointer-overflow)
    endif()
    list(APPEND always -fopenmp-simd -fno-math-errno -fno-trapping-math -ffp-contract=off -fwrapv)
    foreach(file IN LISTS ARGN)
        if(file MATCHES "ops/ref/map\\.c$")
            set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS "-fwrapv;-ffp-contract=off")
            continue()
        endif()
        if(file MATCHES "ops/cpu/(map_loops|attention_tiles|convolve_tiles|dot_tiles|recurrent_steps|row_tiles|winograd_tiles)_avx2\\.c$")
            set(wide -mavx2 -mfma -mf16c)
        elseif(file MATCHES "ops/cpu/(map_loops|attention_tiles|convolve_tiles|dot_tiles|recurrent_steps|row_tiles|winograd_tiles)_avx512\\.c$")
            set(wide -mavx512f -mavx512dq -mavx512bw -mavx512vl -mfma -mf16c)
        elseif(file MATCHES "ops/cpu/(map_loops|attention_tiles|convolve_tiles|dot_tiles|recurrent_steps|row_tiles|winograd_tiles)[^/]*\\.c$")
            set(wide)
        else()
            continue()
        endif()
        if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64|AMD64")
            set(wide)
        endif()
        if(file MATCHES "attention_tiles|convolve_tiles|dot_tiles|recurrent_steps|row_tiles|winograd_tiles")
            list(APPEND wide -ffp-contract=fast -Wno-psabi)
        endif()
        set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS "${always};${wide}")
    endforeach()
endfunction()
