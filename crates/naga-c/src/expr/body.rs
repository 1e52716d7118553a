//! What is known while a function's body is written.

use std::collections::{HashMap, HashSet};

use naga::proc::{EntryPointIndex, NameKey};
use naga::valid::FunctionInfo;
use naga::{AddressSpace, Expression, Function, GlobalVariable, Handle, LocalVariable};

use crate::Error;
use crate::program::Program;

/// Which function is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Function(Handle<Function>),
    Kernel(EntryPointIndex),
}

/// A function on its way to text.
pub(crate) struct Body<'p, 'a> {
    pub(crate) program: &'p mut Program<'a>,
    pub(crate) function: &'a Function,
    pub(crate) info: &'a FunctionInfo,
    pub(crate) scope: Scope,
    /// Expressions that were computed and the variables that hold them.
    pub(crate) named: HashMap<Handle<Expression>, String>,
    /// Expressions that must get a variable, because their text would be repeated.
    pub(crate) forced: HashSet<Handle<Expression>>,
    /// Variables that were declared ahead of their value.
    pub(crate) hoisted: HashMap<Handle<Expression>, String>,
    /// For each loop around: the label before its `continuing` block, if `continue` has to go there.
    pub(crate) loops: Vec<Option<String>>,
    pub(crate) labels: u32,
    pub(crate) out: String,
    pub(crate) indent: usize,
}

impl<'p, 'a> Body<'p, 'a> {
    pub(crate) fn new(
        program: &'p mut Program<'a>,
        function: &'a Function,
        info: &'a FunctionInfo,
        scope: Scope,
    ) -> Result<Self, Error> {
        if info.expression_count() != function.expressions.len() {
            return Err(Error::Inconsistent("a function has other expressions than were validated"));
        }
        let mut body = Self {
            program,
            function,
            info,
            scope,
            named: HashMap::new(),
            forced: HashSet::new(),
            hoisted: HashMap::new(),
            loops: Vec::new(),
            labels: 0,
            out: String::new(),
            indent: 1,
        };
        body.force_repeated();
        Ok(body)
    }

    /// Writes a line.
    pub(crate) fn line(&mut self, text: &str) {
        for line in text.lines() {
            self.out.push_str(&"    ".repeat(self.indent));
            self.out.push_str(line);
            self.out.push('\n');
        }
    }

    pub(crate) fn local_name(&self, local: Handle<LocalVariable>) -> String {
        let key = match self.scope {
            Scope::Function(function) => NameKey::FunctionLocal(function, local),
            Scope::Kernel(index) => NameKey::EntryPointLocal(index, local),
        };
        self.program.names[&key].clone()
    }

    /// A parameter of the function (of a kernel: the variable that holds the built-in value).
    pub(crate) fn argument(&self, index: u32) -> Result<String, Error> {
        let key = match self.scope {
            Scope::Function(function) => NameKey::FunctionArgument(function, index),
            Scope::Kernel(entry) => NameKey::EntryPointArgument(entry, index),
        };
        self.program.names.get(&key).cloned().ok_or(Error::Inconsistent("an argument that does not exist"))
    }

    /// Whether the global's name is a pointer here. In kernels only buffers are.
    pub(crate) fn is_pointer(&self, variable: &GlobalVariable) -> bool {
        matches!(self.scope, Scope::Function(_)) || matches!(variable.space, AddressSpace::Storage { .. })
    }
}
