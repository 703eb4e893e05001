//! Compiles the C of this crate with the C compiler and archiver for the target: CC and AR, or with the target's name,
//! such as CC_thumbv7em_none_eabihf. CFLAGS adds flags that select the processor.
use std::{env, fs, path::PathBuf, process::Command};

fn setting(name: &str, default: &str) -> String {
    let target = env::var("TARGET").unwrap().replace('-', "_");
    println!("cargo:rerun-if-env-changed={name}");
    println!("cargo:rerun-if-env-changed={name}_{target}");
    env::var(format!("{name}_{target}")).or_else(|_| env::var(name)).unwrap_or_else(|_| default.into())
}

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?} failed");
}

fn main() {
    println!("cargo:rerun-if-changed=c");
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    let (compiler, archiver, flags) = (setting("CC", "cc"), setting("AR", "ar"), setting("CFLAGS", ""));
    let mut archive = Command::new(archiver);
    archive.arg("crs").arg(out.join("libscare_$short.a"));
    for entry in fs::read_dir("c").unwrap() {
        let source = entry.unwrap().path();
        if source.extension().is_some_and(|extension| extension == "c") {
            let object = out.join(source.with_extension("o").file_name().unwrap());
            let fixed =
                ["-std=c99", "-O2", "-ffp-contract=off", "-fno-math-errno", "-ffunction-sections", "-fdata-sections"];
            let mut compile = Command::new(&compiler);
            compile.args(fixed).args(flags.split_whitespace()).arg("-c").arg(&source).arg("-o").arg(&object);
            run(&mut compile);
            archive.arg(object);
        }
    }
    run(&mut archive);
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rustc-link-lib=static=scare_$short");
}
