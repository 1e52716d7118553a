//! The stack machine.

use super::super::{ErrorKind, MAX_OPCODES, MAX_STACK, Storage, TensorView, Value};
use super::cursor::Cursor;
use super::global::Global;
use super::opcode::*;
use super::{call, tree};
use rustorch_core::DType;
use std::collections::HashMap;
use std::sync::Arc;

/// An item of the stack or the memo. Cloning is cheap.
#[derive(Clone, Debug)]
pub(super) enum Item {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(Arc<str>),
    Bytes(Arc<[u8]>),
    Global(Global),
    Device(Arc<str>),
    /// A storage with the dtype of its elements; none if it is untyped.
    Storage(Arc<Storage>, Option<DType>),
    Tensor(Arc<TensorView>),
    /// The place of a container among the machine's.
    Container(usize),
}

impl Item {
    /// What this is, for messages.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Item::None => "None",
            Item::Bool(_) => "a boolean",
            Item::Int(_) => "an integer",
            Item::Float(_) => "a floating-point number",
            Item::Str(_) => "a string",
            Item::Bytes(_) => "bytes",
            Item::Global(_) => "a function or class",
            Item::Device(_) => "a device",
            Item::Storage(..) => "a storage",
            Item::Tensor(_) => "a tensor",
            Item::Container(_) => "a container",
        }
    }
}

/// A container, which may change after others refer to it.
#[derive(Debug)]
pub(super) enum Container {
    List(Vec<Item>),
    Tuple(Vec<Item>),
    Set(Vec<Item>),
    Dict(Vec<(Item, Item)>),
}

/// Gives a storage by its key, type of elements (if it has one) and length in elements or, without a type, bytes.
pub(super) type FindStorage<'f> = dyn FnMut(&str, Option<DType>, u64) -> Result<Arc<Storage>, ErrorKind> + 'f;

/// Runs a pickle and gives the value that it describes; `find` gives storages by key, dtype and length.
pub(crate) fn run(pickle: &[u8], find: &mut FindStorage<'_>) -> Result<Value<TensorView>, ErrorKind> {
    let mut machine = Machine {
        cursor: Cursor::new(pickle),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: Vec::new(),
        containers: Vec::new(),
        storages: HashMap::new(),
        start: 0,
    };
    let root = machine.run(find)?;
    tree::build(&machine.containers, &root, pickle.len())
}

pub(super) struct Machine<'a> {
    cursor: Cursor<'a>,
    stack: Vec<Item>,
    /// How long the stack was at each mark.
    marks: Vec<usize>,
    memo: Vec<Option<Item>>,
    containers: Vec<Container>,
    storages: HashMap<Arc<str>, Arc<Storage>>,
    /// Where the opcode begins that is run.
    start: usize,
}

impl Machine<'_> {
    fn run(&mut self, find: &mut FindStorage<'_>) -> Result<Item, ErrorKind> {
        for _ in 0..MAX_OPCODES {
            self.start = self.cursor.at();
            let opcode = self.cursor.u8()?;
            if opcode == STOP {
                let root = self.pop()?;
                if !self.stack.is_empty() {
                    return Err(ErrorKind::LeftOnStack { len: self.stack.len() });
                }
                return match self.cursor.remaining() {
                    0 => Ok(root),
                    len => Err(ErrorKind::TrailingBytes { len }),
                };
            }
            self.step(opcode, find)?;
        }
        Err(ErrorKind::TooManyOpcodes)
    }

    fn step(&mut self, opcode: u8, find: &mut FindStorage<'_>) -> Result<(), ErrorKind> {
        match opcode {
            PROTO => match self.cursor.u8()? {
                2..=5 => Ok(()),
                protocol => Err(ErrorKind::UnsupportedProtocol { protocol }),
            },
            FRAME => self.cursor.take(8).map(drop),
            MARK => {
                if self.marks.len() == MAX_STACK {
                    return Err(ErrorKind::StackOverflow { offset: self.start });
                }
                self.marks.push(self.stack.len());
                Ok(())
            }
            POP => self.pop().map(drop),
            POP_MARK => self.pop_mark().map(drop),
            DUP => {
                let top = self.top()?.clone();
                self.push(top)
            }
            NONE => self.push(Item::None),
            NEWTRUE => self.push(Item::Bool(true)),
            NEWFALSE => self.push(Item::Bool(false)),
            BININT => {
                let value = i32::from_le_bytes(self.cursor.array()?);
                self.push(Item::Int(value.into()))
            }
            BININT1 => {
                let value = self.cursor.u8()?;
                self.push(Item::Int(value.into()))
            }
            BININT2 => {
                let value = u16::from_le_bytes(self.cursor.array()?);
                self.push(Item::Int(value.into()))
            }
            LONG1 => self.long::<1>(),
            LONG4 => self.long::<4>(),
            BINFLOAT => {
                let value = f64::from_be_bytes(self.cursor.array()?);
                self.push(Item::Float(value))
            }
            SHORT_BINUNICODE => self.string::<1>(),
            BINUNICODE => self.string::<4>(),
            BINUNICODE8 => self.string::<8>(),
            // Python 2's strings, which are text as a rule.
            SHORT_BINSTRING => self.string::<1>(),
            BINSTRING => self.string::<4>(),
            SHORT_BINBYTES => self.bytes::<1>(),
            BINBYTES => self.bytes::<4>(),
            BINBYTES8 => self.bytes::<8>(),
            EMPTY_LIST => self.push_container(Container::List(Vec::new())),
            EMPTY_TUPLE => self.push_container(Container::Tuple(Vec::new())),
            EMPTY_SET => self.push_container(Container::Set(Vec::new())),
            EMPTY_DICT => self.push_container(Container::Dict(Vec::new())),
            TUPLE1 => self.tuple(1),
            TUPLE2 => self.tuple(2),
            TUPLE3 => self.tuple(3),
            TUPLE => {
                let items = self.pop_mark()?;
                self.push_container(Container::Tuple(items))
            }
            LIST => {
                let items = self.pop_mark()?;
                self.push_container(Container::List(items))
            }
            FROZENSET => {
                let items = self.pop_mark()?;
                self.push_container(Container::Set(items))
            }
            DICT => {
                self.push_under_mark(Container::Dict(Vec::new()))?;
                self.set_items()
            }
            APPEND => {
                let item = self.pop()?;
                self.extend_list(vec![item])
            }
            APPENDS => {
                let items = self.pop_mark()?;
                self.extend_list(items)
            }
            ADDITEMS => {
                let items = self.pop_mark()?;
                match self.top_container()? {
                    Container::Set(set) => set.extend(items),
                    _ => return Err(self.wrong("a set", "another container")),
                }
                Ok(())
            }
            SETITEM => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.extend_dict([(key, value)])
            }
            SETITEMS => self.set_items(),
            BINPUT => {
                let index = self.cursor.len::<1>()?;
                self.put(index)
            }
            LONG_BINPUT => {
                let index = self.cursor.len::<4>()?;
                self.put(index)
            }
            MEMOIZE => self.put(self.memo.len()),
            BINGET => {
                let index = self.cursor.len::<1>()?;
                self.get(index)
            }
            LONG_BINGET => {
                let index = self.cursor.len::<4>()?;
                self.get(index)
            }
            GLOBAL => {
                let (module, name) = (self.cursor.line()?, self.cursor.line()?);
                let global = Global::find(&String::from_utf8_lossy(module), &String::from_utf8_lossy(name))?;
                self.push(Item::Global(global))
            }
            STACK_GLOBAL => {
                let (name, module) = (self.pop()?, self.pop()?);
                let (Item::Str(name), Item::Str(module)) = (&name, &module) else {
                    return Err(self.wrong("two strings", "other items"));
                };
                self.push(Item::Global(Global::find(module, name)?))
            }
            REDUCE | NEWOBJ => {
                let (arguments, function) = (self.pop()?, self.pop()?);
                let Item::Global(function) = function else {
                    return Err(self.wrong("a function or class", function.type_name()));
                };
                let result = call::call(self, function, &arguments)?;
                self.push(result)
            }
            BUILD => {
                // Attributes of an OrderedDict, such as the `_metadata` of a state dict.
                self.pop()?;
                match self.top_container()? {
                    Container::Dict(_) => Ok(()),
                    _ => Err(self.wrong("a dict", "another container")),
                }
            }
            BINPERSID => self.storage(find),
            opcode => Err(ErrorKind::UnsupportedOpcode { opcode, offset: self.start }),
        }
    }

    pub(super) fn wrong(&self, expected: &'static str, found: &'static str) -> ErrorKind {
        ErrorKind::WrongItem { expected, found, offset: self.start }
    }

    pub(super) fn bad_arguments(&self, function: Global, message: &'static str) -> ErrorKind {
        ErrorKind::BadArguments { function: function.name(), message, offset: self.start }
    }

    fn push(&mut self, item: Item) -> Result<(), ErrorKind> {
        if self.stack.len() == MAX_STACK {
            return Err(ErrorKind::StackOverflow { offset: self.start });
        }
        self.stack.push(item);
        Ok(())
    }

    pub(super) fn add(&mut self, container: Container) -> Item {
        self.containers.push(container);
        Item::Container(self.containers.len() - 1)
    }

    fn push_container(&mut self, container: Container) -> Result<(), ErrorKind> {
        let item = self.add(container);
        self.push(item)
    }

    /// Puts a container under the items behind the last mark.
    fn push_under_mark(&mut self, container: Container) -> Result<(), ErrorKind> {
        let Some(mark) = self.marks.last_mut() else {
            return Err(ErrorKind::NoMark { offset: self.start });
        };
        let place = *mark;
        *mark += 1;
        let item = self.add(container);
        self.stack.insert(place, item);
        Ok(())
    }

    fn top(&self) -> Result<&Item, ErrorKind> {
        // Items under a mark are taken only behind it.
        let floor = self.marks.last().copied().unwrap_or(0);
        self.stack[floor..].last().ok_or(ErrorKind::StackUnderflow { offset: self.start })
    }

    fn pop(&mut self) -> Result<Item, ErrorKind> {
        self.top()?;
        self.stack.pop().ok_or(ErrorKind::StackUnderflow { offset: self.start })
    }

    fn pop_mark(&mut self) -> Result<Vec<Item>, ErrorKind> {
        let mark = self.marks.pop().ok_or(ErrorKind::NoMark { offset: self.start })?;
        Ok(self.stack.split_off(mark))
    }

    fn tuple(&mut self, len: usize) -> Result<(), ErrorKind> {
        let mut items = Vec::with_capacity(len);
        for _ in 0..len {
            items.push(self.pop()?);
        }
        items.reverse();
        self.push_container(Container::Tuple(items))
    }

    fn top_container(&mut self) -> Result<&mut Container, ErrorKind> {
        match self.top()? {
            Item::Container(place) => {
                let place = *place;
                Ok(&mut self.containers[place])
            }
            other => Err(self.wrong("a container", other.type_name())),
        }
    }

    fn extend_list(&mut self, items: Vec<Item>) -> Result<(), ErrorKind> {
        match self.top_container()? {
            Container::List(list) => list.extend(items),
            _ => return Err(self.wrong("a list", "another container")),
        }
        Ok(())
    }

    fn set_items(&mut self) -> Result<(), ErrorKind> {
        let items = self.pop_mark()?;
        if !items.len().is_multiple_of(2) {
            return Err(self.wrong("a value for each key", "an odd number of items"));
        }
        let mut items = items.into_iter();
        let pairs = std::iter::from_fn(|| items.next().zip(items.next()));
        self.extend_dict(pairs)
    }

    fn extend_dict(&mut self, pairs: impl IntoIterator<Item = (Item, Item)>) -> Result<(), ErrorKind> {
        match self.top_container()? {
            Container::Dict(dict) => dict.extend(pairs),
            _ => return Err(self.wrong("a dict", "another container")),
        }
        Ok(())
    }

    fn long<const N: usize>(&mut self) -> Result<(), ErrorKind> {
        let len = self.cursor.len::<N>()?;
        let bytes = self.cursor.take(len)?;
        if len > size_of::<i64>() {
            return Err(ErrorKind::IntegerTooLarge { len, offset: self.start });
        }
        let negative = bytes.last().is_some_and(|&byte| byte >= 0x80);
        let mut value = if negative { [0xFF; 8] } else { [0; 8] };
        value[..len].copy_from_slice(bytes);
        self.push(Item::Int(i64::from_le_bytes(value)))
    }

    fn string<const N: usize>(&mut self) -> Result<(), ErrorKind> {
        let len = self.cursor.len::<N>()?;
        let text = std::str::from_utf8(self.cursor.take(len)?);
        let text = text.map_err(|_| ErrorKind::NotUtf8 { offset: self.start })?;
        self.push(Item::Str(text.into()))
    }

    fn bytes<const N: usize>(&mut self) -> Result<(), ErrorKind> {
        let len = self.cursor.len::<N>()?;
        let bytes = self.cursor.take(len)?.into();
        self.push(Item::Bytes(bytes))
    }

    fn put(&mut self, index: usize) -> Result<(), ErrorKind> {
        let (item, len) = (self.top()?.clone(), self.memo.len());
        // Entries come in order; Python 2 begins with 1.
        if index > len + 1 {
            return Err(ErrorKind::BadMemo { index, len, offset: self.start });
        }
        if index >= len {
            self.memo.resize(index + 1, None);
        }
        self.memo[index] = Some(item);
        Ok(())
    }

    fn get(&mut self, index: usize) -> Result<(), ErrorKind> {
        let bad = ErrorKind::BadMemo { index, len: self.memo.len(), offset: self.start };
        let item = self.memo.get(index).cloned().flatten().ok_or(bad)?;
        self.push(item)
    }

    /// The items of a tuple or list.
    pub(super) fn items(&self, item: &Item) -> Option<&[Item]> {
        match item {
            Item::Container(place) => match &self.containers[*place] {
                Container::Tuple(items) | Container::List(items) => Some(items),
                _ => None,
            },
            _ => None,
        }
    }

    /// The entries of a dict.
    pub(super) fn entries(&self, item: &Item) -> Option<&[(Item, Item)]> {
        match item {
            Item::Container(place) => match &self.containers[*place] {
                Container::Dict(entries) => Some(entries),
                _ => None,
            },
            _ => None,
        }
    }

    /// Replaces the persistent id on the stack, `("storage", type, key, location, length)`, by its storage.
    fn storage(&mut self, find: &mut FindStorage<'_>) -> Result<(), ErrorKind> {
        let bad = ErrorKind::BadPersistentId { offset: self.start };
        let id = self.pop()?;
        let (dtype, key, len) = match self.items(&id) {
            Some([Item::Str(kind), Item::Global(class), Item::Str(key), Item::Str(_), Item::Int(len)])
                if &**kind == "storage" =>
            {
                let dtype = match class {
                    Global::StorageType(dtype) => Some(*dtype),
                    Global::UntypedStorage => None,
                    _ => return Err(bad),
                };
                let Ok(len) = u64::try_from(*len) else { return Err(bad) };
                (dtype, Arc::clone(key), len)
            }
            _ => return Err(bad),
        };
        let storage = match self.storages.get(&key) {
            Some(storage) => Arc::clone(storage),
            None => {
                let storage = find(&key, dtype, len)?;
                self.storages.insert(key, Arc::clone(&storage));
                storage
            }
        };
        self.push(Item::Storage(storage, dtype))
    }
}
