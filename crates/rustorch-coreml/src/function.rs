//! A function of a package.

use crate::{CoreMlOptions, Error, Result};
use rustorch_core::Graph;
use std::collections::BTreeSet;

/// A function of a package: a graph, and what of it other functions share.
#[derive(Clone, Debug)]
pub struct Function<'a> {
    /// What it is called: letters, digits and underscores, no digit first.
    pub name: String,
    /// What it computes.
    pub graph: &'a Graph,
    /// For each constant of the graph, the number by which the package asks for its bytes. Constants of the same number are one, which is written once.
    pub constants: Vec<usize>,
    /// For each state of the graph, its number in the package: states of the same number are one, `state_` and the number, and have one shape.
    pub states: Vec<usize>,
    /// How it becomes a part of the program. Description and metadata are those of the first function.
    pub options: CoreMlOptions,
}

impl<'a> Function<'a> {
    /// A function whose constants and states have the numbers 0, 1, .., as in the graph: give them others if another function of the package has
    /// other ones.
    pub fn new(name: impl Into<String>, graph: &'a Graph, options: CoreMlOptions) -> Function<'a> {
        let constants = (0..graph.constants().len()).collect();
        Function { name: name.into(), graph, constants, states: (0..graph.states.len()).collect(), options }
    }

    /// That functions are valid and go together.
    pub(crate) fn check(functions: &[Function<'_>]) -> Result<()> {
        if functions.is_empty() {
            return Err(Error::Options("a package has a function at least".to_owned()));
        }
        let mut names = BTreeSet::new();
        for Function { name, graph, constants, states, options } in functions {
            graph.verify()?;
            options.check(graph).map_err(Error::Options)?;
            if !CoreMlOptions::is_name(name) {
                return Err(Error::Options(format!(
                    "{name:?} is no name of a function: letters, digits and underscores, no digit first"
                )));
            }
            if !names.insert(name) {
                return Err(Error::Options(format!("two functions are called {name:?}")));
            }
            for (what, given, have) in [
                ("constants", constants.len(), graph.constants().len()),
                ("states", states.len(), graph.states.len()),
            ] {
                if given != have {
                    let message =
                        format!("{given} numbers of {what} are given for {name}, the graph has {have}");
                    return Err(Error::Options(message));
                }
            }
            if states.iter().collect::<BTreeSet<_>>().len() != states.len() {
                return Err(Error::Options(format!("two states of {name} have the same number")));
            }
        }
        Ok(())
    }
}
