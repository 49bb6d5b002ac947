//! The property of the fuzz target `body` over a fixed walk: bodies of the three wire APIs, each changed
//! a little again and again, always in the same way.

#[path = "support/holds.rs"]
mod holds;

use holds::holds;

const SEEDS: [&str; 9] = [
    r#"{"model":"m","messages":[{"role":"user","content":"a \"b\" {c} [d]"},{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]}],"stream":true}"#,
    r#"{ "messages" : [ ] , "n" : -1.5e3 }"#,
    "{\n  \"messages\": [\n    {\"content\": [{\"type\": \"text\", \"text\": \"\\\\\"}]},\n    {}\n  ]\n}",
    r#"{"messages":[{"a":{}}],"messages":[{"b":[]}]}"#,
    r#"{"x":{"messages":[{}]},"messages":[{"y":"]}"}],"z":[[],{},""]}"#,
    r#"{"mess\u0061ges":[{}],"system":"s"}"#,
    r#"{"stream_options":{"include_usage":false,"n":1.0},"model":"m","seed":12345678901234567890}"#,
    "{ \"m\\u006fdel\" : [\"}\"] , \"stream_options\":null }\n",
    r#"{"model":1,"x":{"model":2},"model":3,"stream_options":{"include_usage":0,"include_usage":1}}"#,
];
const BYTES: &[u8] = b"{}[]\",:\\ tn1e-\x00\xff";
const STEPS: u64 = 20_000;

/// Park and Miller's generator: the same draws in every run.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0 * 48_271 % 2_147_483_647;
        self.0 as usize % bound.max(1)
    }
}

fn change(body: &mut Vec<u8>, draws: &mut Draws) {
    let at = draws.below(body.len());
    let byte = BYTES[draws.below(BYTES.len())];
    match draws.below(4) {
        0 if !body.is_empty() => body[at] = byte,
        1 if !body.is_empty() => drop(body.remove(at)),
        2 => body.truncate(at),
        _ => body.insert(at, byte),
    }
}

#[test]
fn what_is_said_of_any_bytes_holds() {
    let mut draws = Draws(7);
    for seed in SEEDS {
        holds(seed.as_bytes());
        for _ in 0..STEPS {
            let mut body = seed.as_bytes().to_vec();
            for _ in 0..=draws.below(3) {
                change(&mut body, &mut draws);
            }
            holds(&body);
        }
    }
}
