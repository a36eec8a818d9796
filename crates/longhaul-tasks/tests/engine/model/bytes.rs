//! Bytes as choices: a story is read from them, each time the same one, and a shorter one from fewer.

/// What is left of the bytes of a story.
#[derive(Debug)]
pub(super) struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    /// The choices that these bytes are.
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    /// Whether the story is at its end.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A number below `end`; 0 once there is nothing left.
    pub(super) fn below(&mut self, end: usize) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first) % end
    }

    /// One of these.
    pub(super) fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// Whether or not.
    pub(super) fn flag(&mut self) -> bool {
        self.below(2) == 1
    }
}
