//! Growing regions: the connected parts of what a device claims that are convex.
//!
//! Nodes get *phases*, which never fall along an edge: even ones what the device does not claim, odd ones what it does. A path that leaves
//! claimed nodes by one that is not goes on in a later phase, so connected nodes of one odd phase are convex, and all such parts can be
//! regions at once. Phases begin as early as they may, which cuts parts whose results are needed late from those that need them; such a
//! part is then moved to the phase of its readers as a whole. All of it is linear in the number of edges.

use super::dag::Dag;
use super::order::Step;

/// The parts, each a list of nodes in order, by their first nodes. `steps` is an order of nodes and of the regions that there are already,
/// none of whose nodes is claimed.
pub(super) fn grow(dag: &Dag, steps: &[Step], regions: &[Vec<u32>], is_claimed: &[bool]) -> Vec<Vec<u32>> {
    let mut phases = phases(dag, steps, regions, is_claimed);
    let mut parts = Parts((0..is_claimed.len() as u32).collect());
    let claimed = || (0..is_claimed.len()).filter(|node| is_claimed[*node]);
    for node in claimed() {
        for before in dag.before(node) {
            if is_claimed[*before as usize] && phases[*before as usize] == phases[node] {
                parts.unite(*before, node as u32);
            }
        }
    }
    let mut members: Vec<Vec<u32>> = vec![Vec::new(); is_claimed.len()];
    for node in claimed() {
        members[parts.find(node as u32) as usize].push(node as u32);
    }
    let mut roots: Vec<u32> =
        (0..is_claimed.len() as u32).filter(|root| !members[*root as usize].is_empty()).collect();
    // The last first: what reads a part's results has been moved when it is the part's turn.
    roots.sort_by_key(|root| std::cmp::Reverse(phases[*root as usize]));
    for root in roots {
        // By part, of which the root has the phase: others' may be moved already.
        let mut latest = u32::MAX;
        for node in &members[root as usize] {
            for after in dag.after(*node as usize).iter().map(|after| *after as usize) {
                let phase = match is_claimed[after] {
                    true if parts.find(after as u32) == parts.find(root) => continue,
                    true => phases[parts.find(after as u32) as usize],
                    false => phases[after] - 1,
                };
                latest = latest.min(phase);
            }
        }
        let mut readers: Vec<u32> = Vec::new();
        for node in &members[root as usize] {
            for after in dag.after(*node as usize).iter().filter(|after| is_claimed[**after as usize]) {
                let part = parts.find(*after);
                if part != parts.find(root) && phases[part as usize] == latest {
                    readers.push(part);
                }
            }
        }
        for reader in readers {
            parts.unite(reader, root);
            let united = parts.find(root) as usize;
            phases[united] = latest;
        }
    }
    let mut grown: Vec<Vec<u32>> = vec![Vec::new(); is_claimed.len()];
    for node in claimed() {
        grown[parts.find(node as u32) as usize].push(node as u32);
    }
    grown.retain(|part| !part.is_empty());
    grown.sort_unstable_by_key(|part| part[0]);
    grown
}

/// The earliest phase of each node.
fn phases(dag: &Dag, steps: &[Step], regions: &[Vec<u32>], is_claimed: &[bool]) -> Vec<u32> {
    let mut phases = vec![0u32; is_claimed.len()];
    for step in steps {
        let single;
        let nodes = match step {
            Step::Node(node) => {
                single = [*node as u32];
                &single[..]
            }
            Step::Region(region) => &regions[*region][..],
        };
        // Those of a region have none yet.
        let before = nodes.iter().flat_map(|node| dag.before(*node as usize));
        let earliest = before.map(|before| phases[*before as usize]).max().unwrap_or(0);
        let claims = matches!(step, Step::Node(node) if is_claimed[*node]);
        let phase = if (earliest % 2 == 1) == claims { earliest } else { earliest + 1 };
        nodes.iter().for_each(|node| phases[*node as usize] = phase);
    }
    phases
}

/// Sets of nodes that are united; each is known by its smallest node.
struct Parts(Vec<u32>);

impl Parts {
    fn find(&mut self, node: u32) -> u32 {
        let mut at = node;
        while self.0[at as usize] != at {
            let up = self.0[self.0[at as usize] as usize];
            self.0[at as usize] = up;
            at = up;
        }
        at
    }

    fn unite(&mut self, a: u32, b: u32) {
        let (a, b) = (self.find(a), self.find(b));
        self.0[a.max(b) as usize] = a.min(b);
    }
}
