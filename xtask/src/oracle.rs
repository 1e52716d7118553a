//! Expected numbers from programs that share no code with this repository.

use crate::{execute, root};
use clap::Subcommand;
use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

#[derive(Subcommand)]
pub(crate) enum Oracle {
    /// List the scripts and what each makes
    List,
    /// Make a Python environment with what the scripts need, in `target/oracle`
    Setup,
    /// Make the fixtures of a script anew
    Run {
        /// The script's name
        name: String,
        /// The folder of the shared test data
        #[arg(long, default_value = "../shared/data")]
        data: PathBuf,
    },
}

/// A script under `tools/oracle`.
struct Script {
    name: &'static str,
    /// Who computes, and what.
    about: &'static str,
    /// Its runs, each a list of arguments. `DATA` stands for the shared data, `*` for the sorted files that match, and
    /// `GGML` for the libraries of llama-cpp-python.
    runs: &'static [&'static [&'static str]],
    /// A file that takes the standard output of the only run.
    stdout: Option<&'static str>,
}

const SCRIPTS: &[Script] = &[
    Script {
        name: "tensor_ops",
        about: "PyTorch: results of tensor operations",
        runs: &[&["crates/rustorch-tensor/tests/fixtures/ops.jsonl"]],
        stdout: None,
    },
    Script {
        name: "tensor_display",
        about: "PyTorch: how tensors are printed",
        runs: &[&["crates/rustorch-tensor/tests/fixtures/display.jsonl"]],
        stdout: None,
    },
    Script {
        name: "torch_conv",
        about: "PyTorch: convolutions, transposed ones, and their gradients",
        runs: &[&["crates/rustorch-tensor/tests/fixtures/conv.jsonl"]],
        stdout: None,
    },
    Script {
        name: "torch_pool",
        about: "PyTorch: pooling and its backward",
        runs: &[&["crates/rustorch-tensor/tests/fixtures/pool.jsonl"]],
        stdout: None,
    },
    Script {
        name: "torch_interpolate",
        about: "PyTorch: interpolation and its backward",
        runs: &[&["crates/rustorch-tensor/tests/fixtures/interpolate.jsonl"]],
        stdout: None,
    },
    Script {
        name: "torch_channel_norm",
        about: "PyTorch: batch, instance and group normalisation",
        runs: &[&["crates/rustorch-tensor/tests/fixtures/channel_norm.jsonl"]],
        stdout: None,
    },
    Script {
        name: "log_gamma_grad",
        about: "mpmath: implicit derivatives of gamma draws",
        runs: &[&["crates/rustorch-tensor/tests/fixtures/log_gamma_grad.jsonl"]],
        stdout: None,
    },
    Script {
        name: "torch_op_db",
        about: "PyTorch: the names of its operations",
        runs: &[&["xtask/src/torch_coverage/op_db.txt"]],
        stdout: None,
    },
    Script {
        name: "torch_methods",
        about: "PyTorch: results and gradients of methods that are composed of operations",
        runs: &[&["crates/rustorch-tensor/tests/fixtures/methods"]],
        stdout: None,
    },
    Script {
        name: "torch_linalg",
        about: "PyTorch: decompositions of matrices, solutions, inverses, determinants",
        runs: &[&["crates/rustorch-tensor/tests/fixtures/linalg.jsonl"]],
        stdout: None,
    },
    Script {
        name: "torch_complex",
        about: "PyTorch and mpmath: functions of complex numbers at hard points",
        runs: &[&["crates/rustorch-tensor/tests/fixtures/complex.jsonl"]],
        stdout: None,
    },
    Script {
        name: "torch_erfinv",
        about: "PyTorch and mpmath: the inverse error function",
        runs: &[&["crates/rustorch-tensor/tests/fixtures/erfinv.jsonl"]],
        stdout: None,
    },
    Script {
        name: "torch_special",
        about: "PyTorch and mpmath: erfc, lgamma, digamma, trigamma",
        runs: &[&["crates/rustorch-tensor/tests/fixtures/special.jsonl"]],
        stdout: None,
    },
    Script {
        name: "torch_polygamma",
        about: "PyTorch and mpmath: derivatives of digamma",
        runs: &[&["crates/rustorch-tensor/tests/fixtures/polygamma.jsonl"]],
        stdout: None,
    },
    Script {
        name: "torch_amp",
        about: "PyTorch: scales of GradScaler, and weights of a training with it",
        runs: &[&["crates/rustorch-nn/tests/fixtures/amp.jsonl"]],
        stdout: None,
    },
    Script {
        name: "torch_average",
        about: "PyTorch: averaged models, and statistics of batches for them",
        runs: &[&["crates/rustorch-nn/tests/fixtures/average.jsonl"]],
        stdout: None,
    },
    Script {
        name: "torch_curves",
        about: "PyTorch: losses and weights of five small trainings",
        runs: &[&[
            "crates/rustorch-nn/tests/fixtures/curves.jsonl",
            "crates/rustorch-nn/tests/fixtures/curves.bin",
        ]],
        stdout: None,
    },
    Script {
        name: "torch_lbfgs",
        about: "PyTorch: parameters after each step of L-BFGS",
        runs: &[&["crates/rustorch-nn/tests/fixtures/lbfgs.jsonl"]],
        stdout: None,
    },
    Script {
        name: "torch_optim",
        about: "PyTorch: parameters after each step of its optimizers",
        runs: &[
            &["crates/rustorch-nn/tests/fixtures/optim.jsonl", "crates/rustorch-nn/tests/fixtures/optim.bin"],
            &[
                "crates/rustorch-nn/tests/fixtures/optim_real.jsonl",
                "crates/rustorch-nn/tests/fixtures/optim_real.bin",
                "real",
            ],
        ],
        stdout: None,
    },
    Script {
        name: "torch_optimizer_files",
        about: "PyTorch: state dicts of its optimizers, and the steps after",
        runs: &[&["crates/rustorch/tests/data/optimizers.pt"]],
        stdout: None,
    },
    Script {
        name: "torch_schedules",
        about: "PyTorch: learning rates and momenta of its schedules",
        runs: &[&[
            "crates/rustorch-nn/tests/fixtures/schedules.jsonl",
            "crates/rustorch-nn/tests/fixtures/schedules.bin",
        ]],
        stdout: None,
    },
    Script {
        name: "torch_scatter_reduce",
        about: "PyTorch: scatter_reduce with every reduction",
        runs: &[&["crates/rustorch-tensor/tests/fixtures/scatter_reduce.jsonl"]],
        stdout: None,
    },
    Script {
        name: "torch_recurrent",
        about: "PyTorch: causal convolution, gated delta rule, SSM scan and RWKV 7, with gradients",
        runs: &[&["crates/rustorch-tensor/tests/fixtures/recurrent.jsonl"]],
        stdout: None,
    },
    Script {
        name: "torch_rnn_gates",
        about: "PyTorch: the gates of LSTM and GRU, with gradients",
        runs: &[&["crates/rustorch-tensor/tests/fixtures/rnn_gates.jsonl"]],
        stdout: None,
    },
    Script {
        name: "torch_grad",
        about: "PyTorch: first and second gradients of every operation",
        runs: &[&["crates/rustorch-tensor/tests/fixtures/grad.jsonl"]],
        stdout: None,
    },
    Script {
        name: "torch_cross_entropy",
        about: "PyTorch: cross entropies with every option, and their gradients",
        runs: &[&["crates/rustorch-tensor/tests/fixtures/cross_entropy.jsonl"]],
        stdout: None,
    },
    Script {
        name: "torch_functional",
        about: "PyTorch: Jacobians, Hessians, a gradient penalty and a MAML step, printed for the test that holds them",
        runs: &[&[]],
        stdout: None,
    },
    Script {
        name: "torch_nn_functional",
        about: "PyTorch: activations and losses, and their gradients",
        runs: &[&["crates/rustorch-nn/tests/fixtures"]],
        stdout: None,
    },
    Script {
        name: "torch_models",
        about: "PyTorch: losses of an MLP, LeNet and a GPT, and the bytes that they save, printed for the test that holds them",
        runs: &[&[]],
        stdout: None,
    },
    Script {
        name: "torch_module_db",
        about: "PyTorch: what comes of the samples of its own tests of modules",
        runs: &[&[
            "crates/rustorch-nn/tests/fixtures/module_db.jsonl",
            "crates/rustorch-nn/tests/fixtures/module_db.bin",
        ]],
        stdout: None,
    },
    Script {
        name: "torch_modules",
        about: "PyTorch: results and gradients of modules, and their buffers after the call",
        runs: &[&[
            "crates/rustorch-nn/tests/fixtures/modules.jsonl",
            "crates/rustorch-nn/tests/fixtures/modules.bin",
        ]],
        stdout: None,
    },
    Script {
        name: "torch_repr",
        about: "PyTorch: how modules print",
        runs: &[&["crates/rustorch-nn/tests/fixtures/display.jsonl"]],
        stdout: None,
    },
    Script {
        name: "torch_programs",
        about: "PyTorch: first and second gradients of random programs with views and writes in place",
        runs: &[&["crates/rustorch-tensor/tests/fixtures/programs.jsonl"]],
        stdout: None,
    },
    Script {
        name: "quant_decode",
        about: "gguf-py: blocks of every type decoded",
        runs: &[&["crates/rustorch-quant/tests/fixtures/decode"]],
        stdout: None,
    },
    Script {
        name: "quant_encode",
        about: "gguf-py and ggml: values quantized to blocks",
        runs: &[&[
            "crates/rustorch-quant/tests/fixtures/encode",
            "GGML/libggml-base.so",
            "GGML/libggml-cpu.so",
        ]],
        stdout: None,
    },
    Script {
        name: "quant_models",
        about: "gguf-py: digests of the decoded tensors of the shared models",
        runs: &[&["DATA/models"]],
        stdout: Some("crates/rustorch-quant/tests/fixtures/models.txt"),
    },
    Script {
        name: "matmul_ggml",
        about: "ggml: dot products of weights of every type",
        runs: &[&["GGML/.", "crates/rustorch-cpu/tests/fixtures/dots.bin"]],
        stdout: None,
    },
    Script {
        name: "gguf_fixtures",
        about: "gguf-py: GGUF files to read",
        runs: &[&["crates/rustorch-formats/tests/data"]],
        stdout: None,
    },
    Script {
        name: "gguf_describe",
        about: "gguf-py: what the shared files hold",
        runs: &[&["--digest", "DATA", "DATA/archs/*.gguf", "DATA/models/*.gguf", "DATA/vocab/*.gguf"]],
        stdout: Some("crates/rustorch-formats/tests/data/shared_digests.tsv"),
    },
    Script {
        name: "safetensors_files",
        about: "safetensors: files to read; with --check it reads ours",
        runs: &[&["crates/rustorch-formats/tests/data/safetensors"]],
        stdout: None,
    },
    Script {
        name: "numpy_indexing",
        about: "NumPy: what indices read and write; PyTorch: their gradients",
        runs: &[&["crates/rustorch-tensor/tests/fixtures/indexing.jsonl"]],
        stdout: None,
    },
    Script {
        name: "numpy_files",
        about: "NumPy: .npy and .npz files to read; with --check it reads ours",
        runs: &[&["crates/rustorch-formats/tests/data/numpy"]],
        stdout: None,
    },
    Script {
        name: "torch_files",
        about: "PyTorch: .pt files to read; with --check it reads ours",
        runs: &[&["crates/rustorch-formats/tests/data/torch"]],
        stdout: None,
    },
    Script { name: "chat_templates", about: "Jinja2: rendered chat templates", runs: &[&[]], stdout: None },
    Script {
        name: "sampling",
        about: "numpy: distributions that samplers leave",
        runs: &[&[]],
        stdout: None,
    },
    Script {
        name: "tokenizer",
        about: "llama.cpp: token ids of difficult texts",
        runs: &[&["DATA"]],
        stdout: None,
    },
    Script {
        name: "pretokenizer_names",
        about: "llama.cpp: the names of pre-tokenizers in its source, and what they imply",
        runs: &[&[]],
        stdout: None,
    },
    Script {
        name: "tokenizer_made",
        about: "llama.cpp and sentencepiece: token ids with vocabularies that the script makes",
        runs: &[&["DATA"]],
        stdout: None,
    },
    Script {
        name: "llama_embeddings",
        about: "llama.cpp: vectors and scores of texts, by small embedders and rerankers",
        runs: &[&["crates/rustorch-llm/tests/fixtures/embeddings.json"]],
        stdout: None,
    },
    Script {
        name: "block_models",
        about: "ggml: small models whose matrices have every type (llama_logits says what they compute)",
        runs: &[&["crates/rustorch-llm/tests/fixtures/block_models", "GGML/libggml-base.so"]],
        stdout: None,
    },
    Script {
        name: "ggml_gelu",
        about: "ggml: the table of f16 values that it takes GELU from",
        runs: &[&[]],
        stdout: None,
    },
    Script {
        name: "llama_archs",
        about: "llama.cpp: what it computes with a small model of each architecture",
        runs: &[
            &["decoders", "crates/rustorch-llm/tests/fixtures/architectures.jsonl"],
            &["encoders", "crates/rustorch-llm/tests/fixtures/encoders.jsonl"],
        ],
        stdout: None,
    },
    Script {
        name: "llama_quantize",
        about: "llama.cpp: the dtypes and data of tensors in each mixture",
        runs: &[&["crates/rustorch-llm/tests/fixtures/quantize.jsonl"]],
        stdout: None,
    },
    Script {
        name: "llama_evaluate",
        about: "llama.cpp: perplexities, divergences and activation statistics (LLAMA_CPP: a folder with its programs)",
        runs: &[&["crates/rustorch-llm/tests/fixtures/evaluate"]],
        stdout: None,
    },
    Script {
        name: "hf_convert",
        about: "llama.cpp: conversions of models that transformers writes (LLAMA_CPP_SOURCE: its source)",
        runs: &[&["crates/rustorch-llm/tests/fixtures/convert"]],
        stdout: None,
    },
    Script {
        name: "llama_logits",
        about: "llama.cpp: logits and greedy ids of the shared models, and of those of block_models",
        runs: &[
            &["crates/rustorch-llm/tests/fixtures/logits.jsonl", "DATA/models/*.gguf", "DATA/archs/*.gguf"],
            &[
                "crates/rustorch-llm/tests/fixtures/block_models/logits.jsonl",
                "crates/rustorch-llm/tests/fixtures/block_models/classic.gguf",
                "crates/rustorch-llm/tests/fixtures/block_models/dense.gguf",
                "crates/rustorch-llm/tests/fixtures/block_models/iq.gguf",
                "crates/rustorch-llm/tests/fixtures/block_models/k.gguf",
                "crates/rustorch-llm/tests/fixtures/block_models/scaled.gguf",
            ],
        ],
        stdout: None,
    },
    Script {
        name: "llama_logits_f32",
        about: "llama.cpp: logits of shared models with every tensor decoded to f32",
        runs: &[&[
            "crates/rustorch-llm/tests/fixtures/logits_f32.jsonl",
            "DATA/models/stories260K-x4-Q8_0.gguf",
            "DATA/models/stories260K-x4-Q4_K_M.gguf",
            "DATA/models/stories260K-x4-Q2_K.gguf",
            "DATA/models/stories260K-x4-IQ3_S.gguf",
            "DATA/models/stories260K-x4-MXFP4.gguf",
            "DATA/models/stories260K-x4-F16.gguf",
        ]],
        stdout: None,
    },
    Script {
        name: "llama_greedy",
        about: "llama.cpp: continuations by the carried model",
        runs: &[&[
            "crates/rustorch-cli/assets/shakespeare.gguf",
            "64",
            "crates/rustorch-cli/assets/shakespeare.greedy.json",
        ]],
        stdout: None,
    },
];

pub(crate) fn run(task: &Oracle) -> Result<(), String> {
    match task {
        Oracle::List => {
            for script in SCRIPTS {
                note(format_args!("{:16} {}", script.name, script.about));
            }
            Ok(())
        }
        Oracle::Setup => {
            let mut venv = Command::new("python3");
            venv.args(["-m", "venv"]).arg(environment());
            execute(venv)?;
            let mut install = Command::new(python());
            install.args(["-m", "pip", "install", "-r", "tools/oracle/requirements.txt"]);
            execute(install)
        }
        Oracle::Run { name, data } => {
            let script = SCRIPTS.iter().find(|script| script.name == name).ok_or_else(|| {
                let names: Vec<_> = SCRIPTS.iter().map(|script| script.name).collect();
                format!("there is no oracle `{name}`; there are {}", names.join(", "))
            })?;
            script.run(data)
        }
    }
}

impl Script {
    fn run(&self, data: &std::path::Path) -> Result<(), String> {
        if !python().exists() {
            return Err("there is no Python environment yet; run `cargo xtask oracle setup`".into());
        }
        for arguments in self.runs {
            let mut command = Command::new(python());
            command.arg(format!("tools/oracle/{}.py", self.name));
            for argument in *arguments {
                command.args(expand(argument, data)?);
            }
            if let Some(path) = self.stdout {
                let file = File::create(root().join(path)).map_err(|e| format!("{path}: {e}"))?;
                command.stdout(file);
            }
            execute(command)?;
        }
        Ok(())
    }
}

/// The arguments that a pattern stands for.
fn expand(argument: &str, data: &std::path::Path) -> Result<Vec<PathBuf>, String> {
    if let Some(library) = argument.strip_prefix("GGML/") {
        return Ok(vec![ggml()?.join(library)]);
    }
    let Some(rest) = argument.strip_prefix("DATA") else { return Ok(vec![argument.into()]) };
    let Some((folder, ending)) = rest.trim_start_matches('/').split_once("/*") else {
        return Ok(vec![data.join(rest.trim_start_matches('/'))]);
    };
    let folder = data.join(folder);
    let entries =
        std::fs::read_dir(root().join(&folder)).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(folder.join(entry.ok()?.file_name())))
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .collect();
    files.sort();
    Ok(files)
}

/// The folder with the shared libraries of llama-cpp-python.
fn ggml() -> Result<PathBuf, String> {
    let lib = environment().join("lib");
    let versions = std::fs::read_dir(&lib).map_err(|e| format!("{}: {e}", lib.display()))?;
    versions
        .filter_map(|entry| Some(entry.ok()?.path().join("site-packages/llama_cpp/lib")))
        .find(|path| path.is_dir())
        .ok_or_else(|| "llama-cpp-python is not installed; run `cargo xtask oracle setup`".into())
}

fn environment() -> PathBuf {
    root().join("target/oracle")
}

fn python() -> PathBuf {
    environment().join("bin/python")
}

/// Prints a line. Where that fails nobody is listening.
pub(crate) fn note(text: impl Display) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_is_listed_and_every_listed_script_exists() {
        let mut listed: Vec<String> = SCRIPTS.iter().map(|script| format!("{}.py", script.name)).collect();
        let mut there: Vec<String> = std::fs::read_dir(root().join("tools/oracle"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".py"))
            .collect();
        listed.sort();
        there.sort();
        assert_eq!(listed, there);
    }
}
