//! A short list that fails, out of a long one.
//!
//! Parts are left out, half of the list first and single operations at last, as long as what is left
//! still fails.

/// So many attempts are worth it.
const ATTEMPTS: usize = 4_000;

/// The shortest part of `list` found that still `fails`.
pub(crate) fn reduce<T: Copy>(mut list: Vec<T>, fails: impl Fn(&[T]) -> bool) -> Vec<T> {
    let mut part = list.len().div_ceil(2);
    let mut attempts = 0;
    while part > 0 {
        let before = list.len();
        let mut from = 0;
        while from < list.len() && attempts < ATTEMPTS {
            attempts += 1;
            let to = (from + part).min(list.len());
            let rest: Vec<T> = [&list[..from], &list[to..]].concat();
            match fails(&rest) {
                true => list = rest,
                false => from = to,
            }
        }
        if part == 1 && list.len() == before {
            break;
        }
        part = if part > 1 { part / 2 } else { 1 };
        if attempts >= ATTEMPTS {
            break;
        }
    }
    list
}
