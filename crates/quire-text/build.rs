fn main() {
    cxx_build::bridge("src/lib.rs").std("c++20").compile("quire_text_bridge");
    println!("cargo:rerun-if-changed=src/lib.rs");
}
