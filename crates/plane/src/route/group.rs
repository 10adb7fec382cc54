//! Several next hops for one prefix. A flow keeps its next hop while that is there: only the flows of a next hop that
//! goes, and the share of one that comes, move (the buckets of RFC 2992's analysis, kept as a table).

/// Buckets that flows fall into: with 16 next hops the shares differ by a sixteenth.
const BUCKETS: usize = 256;

/// Next hops by the hash of a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    buckets: Vec<u32>,
}

impl Group {
    /// Equal shares for the members, at least one, at most one per bucket; flows stay where they were before.
    pub(crate) fn new(members: &[u32], before: Option<&Group>) -> Group {
        let mut left: Vec<(u32, usize)> = members.iter().map(|&member| (member, 0)).collect();
        // The first ones take what is over.
        for (n, (_, quota)) in left.iter_mut().enumerate() {
            *quota = BUCKETS / members.len() + usize::from(n < BUCKETS % members.len());
        }
        let mut take = |wanted: Option<u32>| {
            let fits =
                |&&mut (member, quota): &&mut (u32, usize)| quota > 0 && wanted.is_none_or(|w| w == member);
            let (member, quota) = left.iter_mut().find(fits)?;
            *quota -= 1;
            Some(*member)
        };
        let old = (0..BUCKETS).map(|n| before.map(|group| group.buckets[n]));
        let kept: Vec<Option<u32>> = old.map(|old| old.and_then(|old| take(Some(old)))).collect();
        let buckets =
            kept.into_iter().map(|kept| kept.or_else(|| take(None)).expect("quotas sum up")).collect();
        Group { buckets }
    }

    /// The next hop of a flow with this hash, where `usable` holds for it; otherwise that of the next bucket for which
    /// it does; of none, the flow's own.
    pub(crate) fn pick(&self, hash: u32, usable: impl Fn(u32) -> bool) -> u32 {
        let first = hash as usize % BUCKETS;
        let (before, from) = self.buckets.split_at(first);
        from.iter().chain(before).copied().find(|&member| usable(member)).unwrap_or(self.buckets[first])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each next hop once.
    fn members(group: &Group) -> Vec<u32> {
        let mut members = group.buckets.clone();
        members.sort_unstable();
        members.dedup();
        members
    }

    fn moved(from: &Group, to: &Group) -> usize {
        from.buckets.iter().zip(&to.buckets).filter(|(a, b)| a != b).count()
    }

    #[test]
    fn shares_are_equal_and_flows_stay() {
        let four = Group::new(&[10, 11, 12, 13], None);
        for member in members(&four) {
            assert_eq!(four.buckets.iter().filter(|&&m| m == member).count(), BUCKETS / 4);
        }
        let three = Group::new(&[10, 11, 13], Some(&four));
        assert_eq!((moved(&four, &three), members(&three)), (BUCKETS / 4, vec![10, 11, 13]));
        let again = Group::new(&[10, 11, 13, 14], Some(&three));
        assert_eq!(moved(&three, &again), BUCKETS / 4);
    }

    #[test]
    fn a_next_hop_that_is_out_is_stepped_over() {
        let group = Group::new(&[1, 2], None);
        let all: Vec<u32> = (0..512).map(|hash| group.pick(hash, |member| member == 2)).collect();
        assert!(all.iter().all(|&member| member == 2));
        let out: Vec<u32> = (0..256).map(|hash| group.pick(hash, |_| false)).collect();
        assert_eq!(out, group.buckets);
    }
}
