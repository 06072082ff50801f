# The text crate (tokenizers, minijinja, llguidance behind a cxx bridge), built by cargo.
add_library(quire_text_crate INTERFACE)
