/* embed.S: puts the text of base/knobs.def, as it stands, into the image (section .hayloft.knobs),
 * so that the tool checks an arm's arguments against the very image that will run it. Shared by
 * both platforms. */
    .section .hayloft.knobs, "a", @progbits
    .globl hayloft_knobs_text
    .globl hayloft_knobs_text_end
hayloft_knobs_text:
    .incbin "base/knobs.def"
hayloft_knobs_text_end:
    .section .note.GNU-stack, "", @progbits
