//! Which node has to come before which.

use rustorch_core::{Graph, Source, ValueId};

/// Lists of numbers, one after the other in memory.
pub(super) struct Lists {
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    /// Of pairs of a list's number and an item, which stay in order.
    fn new(lists: usize, pairs: &[(u32, u32)]) -> Lists {
        let mut starts = vec![0u32; lists + 1];
        for (list, _) in pairs {
            starts[*list as usize + 1] += 1;
        }
        for i in 0..lists {
            starts[i + 1] += starts[i];
        }
        let mut next = starts.clone();
        let mut items = vec![0; pairs.len()];
        for (list, item) in pairs {
            let at = &mut next[*list as usize];
            items[*at as usize] = *item;
            *at += 1;
        }
        Lists { starts, items }
    }

    pub(super) fn get(&self, list: usize) -> &[u32] {
        &self.items[self.starts[list] as usize..self.starts[list + 1] as usize]
    }
}

/// The nodes of a graph and their order: a node comes behind those whose results it reads, and one that overwrites a value behind those
/// that read the value.
pub(super) struct Dag {
    before: Lists,
    after: Lists,
    /// By value: the nodes that read it, or write into a part of it.
    readers: Lists,
    /// By value: whether a run returns it, or leaves it in memory that it wrote in place.
    is_output: Vec<bool>,
    /// By value: whether a node writes over it, or over a part of it.
    is_overwritten: Vec<bool>,
}

impl Dag {
    /// Of a graph that was verified.
    pub(super) fn new(graph: &Graph) -> Dag {
        let mut reads: Vec<(u32, u32)> = Vec::with_capacity(2 * graph.nodes.len());
        for (n, node) in graph.nodes.iter().enumerate() {
            let into = node.results.iter().filter_map(|result| result.into.as_deref());
            for operand in node.args.iter().chain(into) {
                reads.push((operand.value.0, n as u32));
            }
        }
        let readers = Lists::new(graph.values.len(), &reads);
        // Pairs of a node and one behind it.
        let mut edges: Vec<(u32, u32)> = Vec::with_capacity(reads.len());
        for (value, reader) in &reads {
            if let Source::Result { node, .. } = graph.values[*value as usize].source {
                edges.push((node, *reader));
            }
        }
        for (n, node) in graph.nodes.iter().enumerate() {
            for into in node.results.iter().filter_map(|result| result.into.as_deref()) {
                let others = readers.get(into.value.index()).iter().filter(|reader| **reader != n as u32);
                edges.extend(others.map(|reader| (*reader, n as u32)));
            }
        }
        let after = Lists::new(graph.nodes.len(), &edges);
        edges.iter_mut().for_each(|(from, to)| std::mem::swap(from, to));
        let before = Lists::new(graph.nodes.len(), &edges);
        let mut is_output = vec![false; graph.values.len()];
        let written = || graph.nodes.iter().flat_map(|node| &node.results);
        written()
            .filter(|result| result.into.is_some())
            .for_each(|last| is_output[last.value.index()] = true);
        let mut is_overwritten = vec![false; graph.values.len()];
        // Who writes over it reads it.
        for into in written().filter_map(|result| result.into.as_deref()) {
            is_output[into.value.index()] = false;
            is_overwritten[into.value.index()] = true;
        }
        graph.outputs.iter().for_each(|output| is_output[output.value.index()] = true);
        Dag { before, after, readers, is_output, is_overwritten }
    }

    /// The nodes that come before one.
    pub(super) fn before(&self, node: usize) -> &[u32] {
        self.before.get(node)
    }

    /// The nodes that come behind one.
    pub(super) fn after(&self, node: usize) -> &[u32] {
        self.after.get(node)
    }

    /// The nodes that read a value, or write into a part of it.
    pub(super) fn readers(&self, value: ValueId) -> &[u32] {
        self.readers.get(value.index())
    }

    pub(super) fn is_output(&self, value: ValueId) -> bool {
        self.is_output[value.index()]
    }
    pub(super) fn is_overwritten(&self, value: ValueId) -> bool {
        self.is_overwritten[value.index()]
    }
}
