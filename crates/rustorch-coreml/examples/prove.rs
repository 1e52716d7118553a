//! Compiles and runs every case of the tests by Core ML with each compute unit, compares the results with the CPU's, and writes `proof.json` and
//! `proof.md` to a folder. Each case has a process of its own, so that one that aborts or hangs is a line of the result. `tools/prove-on-a-mac.sh` runs it.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a step that fails fails the run, and what it does is told"
)]

#[allow(dead_code, unreachable_pub, reason = "the tests use the rest")]
#[path = "../tests/it/cases/mod.rs"]
mod cases;
#[allow(dead_code, unreachable_pub, reason = "the tests use the rest")]
#[path = "../tests/it/prove.rs"]
mod prove;

use prove::{CaseOnCpu, Outcome, Proof, Row};
use rustorch_coreml::runtime::{ComputeUnits, Runtime, system_runtime};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

const USAGE: &str = "usage: prove [--fake] [--every N] FOLDER

--fake     compute on the CPU, as if that were Core ML: shows what this program does, and nothing of Core ML
--every N  run each Nth case only";

/// How long a case may take.
const LIMIT: Duration = Duration::from_secs(120);

fn main() {
    let mut args: Vec<String> = env::args().skip(1).collect();
    let mut flag = |name: &str| {
        let found = args.iter().position(|arg| arg == name);
        found.map(|i| args.remove(i)).is_some()
    };
    let (fake, is_case) = (flag("--fake"), flag("--case"));
    if is_case {
        let [name, folder] = &args[..] else { return usage() };
        return one(name, Path::new(folder), fake);
    }
    let every = match args.iter().position(|arg| arg == "--every") {
        Some(i) if i + 1 < args.len() => {
            let every = args.remove(i + 1).parse::<usize>().ok().filter(|every| *every > 0);
            args.remove(i);
            let Some(every) = every else { return usage() };
            every
        }
        _ => 1,
    };
    let [folder] = &args[..] else { return usage() };
    let folder = PathBuf::from(folder);
    let system = match system_runtime() {
        _ if fake => "a fake".to_owned(),
        Ok(runtime) => runtime.system(),
        Err(why) => {
            eprintln!("{why}; --fake shows what this program does");
            std::process::exit(1);
        }
    };
    fs::create_dir_all(&folder).unwrap();
    let all = cases::all();
    let by_turns = all.iter().filter(|case| !case.program.states().is_empty());
    let by_turns: Vec<String> = by_turns.map(|case| format!("{}{}", case.name, prove::BY_TURNS)).collect();
    let names: Vec<String> = all.into_iter().map(|case| case.name).chain(by_turns).step_by(every).collect();
    let mut rows = Vec::new();
    for (i, name) in names.iter().enumerate() {
        let of_case = apart(name, &folder, fake);
        let right = of_case.iter().filter(|row| row.outcome == Outcome::Right).count();
        println!(
            "{:4} of {}: {name}: right with {right} of {} compute units",
            i + 1,
            names.len(),
            of_case.len()
        );
        rows.extend(of_case);
    }
    let proof = Proof { schema: 1, system, fake, rows };
    fs::write(folder.join("proof.json"), serde_json::to_string_pretty(&proof).unwrap()).unwrap();
    fs::write(folder.join("proof.md"), page(&proof)).unwrap();
    println!("{}: proof.json, proof.md", folder.display());
}

fn usage() {
    eprintln!("{USAGE}");
    std::process::exit(2);
}

/// Runs a case in this process, and writes its rows to a file of its folder.
fn one(name: &str, folder: &Path, fake: bool) {
    let of = name.strip_suffix(prove::BY_TURNS).unwrap_or(name);
    let case = Arc::new(cases::all().into_iter().find(|case| case.name == of).unwrap());
    let runtime: Arc<dyn Runtime> = match fake {
        true => Arc::new(CaseOnCpu { case: Arc::clone(&case), lies: false }),
        false => system_runtime().unwrap(),
    };
    let rows = prove::prove(&*runtime, name, &case, folder);
    fs::write(folder.join("rows.json"), serde_json::to_vec(&rows).unwrap()).unwrap();
}

/// Runs a case in another process: its rows, or what became of the process.
fn apart(name: &str, folder: &Path, fake: bool) -> Vec<Row> {
    let work = folder.join("case");
    let _ = fs::remove_dir_all(&work);
    fs::create_dir(&work).unwrap();
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(fake.then_some("--fake")).arg("--case").arg(name).arg(&work).stderr(Stdio::null());
    let mut process = command.spawn().unwrap();
    let started = Instant::now();
    let status = loop {
        match process.try_wait().unwrap() {
            Some(status) => break status.to_string(),
            None if started.elapsed() < LIMIT => thread::sleep(Duration::from_millis(2)),
            None => {
                let _ = process.kill();
                process.wait().unwrap();
                break format!("took longer than {} s", LIMIT.as_secs());
            }
        }
    };
    let rows = fs::read(work.join("rows.json")).ok().and_then(|text| serde_json::from_slice(&text).ok());
    let _ = fs::remove_dir_all(&work);
    rows.unwrap_or_else(|| {
        let row = |units: ComputeUnits| {
            Row::unfinished(name, units.name(), Outcome::Failed, Some(format!("the process: {status}")))
        };
        ComputeUnits::ALL.map(row).to_vec()
    })
}

/// The proof for people.
fn page(proof: &Proof) -> String {
    let mut text = String::new();
    let title = if proof.fake { "Nothing of Core ML: a fake stood for it" } else { "Programs by Core ML" };
    writeln!(text, "# {title}\n\n{}\n", proof.system).unwrap();
    writeln!(text, "| compute units | right | wrong | failed | not run |\n|---|---|---|---|---|").unwrap();
    let mut counts: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    for row in &proof.rows {
        counts.entry(&row.units).or_default()[row.outcome as usize] += 1;
    }
    for (units, [right, wrong, failed, not_run]) in counts {
        writeln!(text, "| {units} | {right} | {wrong} | {failed} | {not_run} |").unwrap();
    }
    let bad = proof.rows.iter().filter(|row| matches!(row.outcome, Outcome::Wrong | Outcome::Failed));
    for (i, row) in bad.enumerate() {
        if i == 0 {
            writeln!(text, "\n| case | compute units | what |\n|---|---|---|").unwrap();
        }
        let message = row.message.as_deref().unwrap_or_default().replace(['|', '\n'], " ");
        writeln!(text, "| {} | {} | {message} |", row.case, row.units).unwrap();
    }
    text
}
