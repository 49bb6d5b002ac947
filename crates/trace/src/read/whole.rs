//! How is a file read that is one JSON value, without holding it?
//!
//! The formats have scalars and one long list. The scalars are shown as they come, and so is each
//! item of the list, parsed alone; a fault of an item costs that item. What the parser itself cannot
//! read ends the file there.
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor,
};

use super::Context;
use crate::error::{Fault, Place, TraceError};
use crate::input::{self, Bytes};
use crate::leaf::Any;

/// What a format does with such a value.
pub(super) trait Whole {
    /// An item of the list.
    type Item: DeserializeOwned;

    /// The name of the list.
    const LIST: &'static str;

    /// Takes another field.
    fn field(&mut self, name: &str, value: Any) -> Result<(), Fault>;

    /// The list begins.
    fn begin(&mut self) {}

    /// Takes an item, counted from 1.
    fn item(
        &mut self,
        context: &mut Context<'_>,
        number: u64,
        item: Self::Item,
    ) -> Result<(), Fault>;
}

/// Reads a file.
pub(super) fn read<W: Whole>(
    context: &mut Context<'_>,
    mut bytes: Bytes,
    whole: &mut W,
) -> Result<(), TraceError> {
    match input::pass_mark(&mut bytes) {
        Ok(false) => {}
        Ok(true) => return context.fault(Place::File, input::marked()),
        Err(fault) => return context.fault(Place::File, fault),
    }
    let ended = RefCell::new(None);
    let mut state = State {
        whole,
        context,
        items: 0,
        ended: &ended,
    };
    let mut parser = serde_json::Deserializer::from_reader(bytes);
    let parsed = Object(&mut state).deserialize(&mut parser);
    let parsed = parsed.and_then(|()| parser.end());
    let items = state.items;
    if let Some(error) = ended.take() {
        return Err(error);
    }
    match parsed {
        Ok(()) => Ok(()),
        Err(error) => context.fault(Place::Record(items + 1), error.into()),
    }
}

struct State<'a, 'b, W> {
    whole: &'a mut W,
    context: &'a mut Context<'b>,
    items: u64,
    /// An error that ends the reading, which the parser cannot carry.
    ended: &'a RefCell<Option<TraceError>>,
}

impl<W> State<'_, '_, W> {
    fn check<E: Error>(&mut self, place: Place, taken: Result<(), Fault>) -> Result<(), E> {
        let Err(fault) = taken else { return Ok(()) };
        self.context.fault(place, fault).map_err(|error| {
            let stop = E::custom(&error);
            *self.ended.borrow_mut() = Some(error);
            stop
        })
    }
}

struct Object<'a, 'b, 'c, W>(&'a mut State<'b, 'c, W>);

impl<'de, W: Whole> DeserializeSeed<'de> for Object<'_, '_, '_, W> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, W: Whole> Visitor<'de> for Object<'_, '_, '_, W> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            if name == W::LIST {
                map.next_value_seed(Items(&mut *self.0))?;
            } else {
                let value = map.next_value()?;
                let taken = self.0.whole.field(&name, value);
                self.0.check(Place::File, taken)?;
            }
        }
        Ok(())
    }
}

struct Items<'a, 'b, 'c, W>(&'a mut State<'b, 'c, W>);

impl<'de, W: Whole> DeserializeSeed<'de> for Items<'_, '_, '_, W> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, W: Whole> Visitor<'de> for Items<'_, '_, '_, W> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let state = self.0;
        state.whole.begin();
        while let Some(item) = seq.next_element_seed(PhantomData::<W::Item>)? {
            state.items += 1;
            let taken = state.whole.item(state.context, state.items, item);
            state.check(Place::Record(state.items), taken)?;
        }
        Ok(())
    }
}
