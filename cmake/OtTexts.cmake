# OtTexts.cmake - the manual page and the completion scripts of shells: output of the program, regenerated with it.

if(CMAKE_CROSSCOMPILING)
    message(STATUS "cross-compiling: no manual page and no completion of shells, which the program itself prints")
    return()
endif()

set(ot_texts)

# ot_text(FILE FOLDER ARGUMENTS...): what `onnxtrain ARGUMENTS` prints becomes FILE, installed to FOLDER.
function(ot_text file folder)
    set(out ${CMAKE_CURRENT_BINARY_DIR}/texts/${file})
    add_custom_command(OUTPUT ${out} DEPENDS onnxtrain VERBATIM
        COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/texts
        COMMAND onnxtrain ${ARGN} > ${out})
    install(FILES ${out} DESTINATION ${folder})
    set(ot_texts ${ot_texts} ${out} PARENT_SCOPE)
endfunction()

ot_text(onnxtrain.1 ${CMAKE_INSTALL_MANDIR}/man1 help --man)
ot_text(onnxtrain ${CMAKE_INSTALL_DATADIR}/bash-completion/completions completion bash)
ot_text(_onnxtrain ${CMAKE_INSTALL_DATADIR}/zsh/site-functions completion zsh)
ot_text(onnxtrain.fish ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d completion fish)

add_custom_target(onnxtrain_texts ALL DEPENDS ${ot_texts})
