//! The table of graph operations.

use std::ops::Deref;

use millstream_core::{Binary, Unary};

use super::attention::Attention;
use super::contraction::Contraction;
use super::elementwise::{Cast, Copy, Select};
use super::host::HostOutput;
use super::movement::{Assign, Concat, Gather, Pad};
use super::operation::Operation;
use super::reductions::{Reduction, Scan};
use super::sources::{Fill, Input, Iota, Leaf, Random};

macro_rules! operations {
    ($($name:ident($operation:ty),)*) => {
        /// How a node's value comes from its inputs.
        #[derive(Clone, Debug)]
        pub(crate) enum Kind {
            $(#[doc = concat!("See [`", stringify!($operation), "`].")] $name($operation),)*
        }

        /// The numbers of the operations in the table.
        enum Code {
            $($name,)*
        }

        impl Kind {
            /// The number of the operation in the table.
            pub fn code(&self) -> u64 {
                match self {
                    $(Kind::$name(_) => Code::$name as u64,)*
                }
            }
        }

        impl Deref for Kind {
            type Target = dyn Operation;

            fn deref(&self) -> &Self::Target {
                match self {
                    $(Kind::$name(operation) => operation,)*
                }
            }
        }

        $(impl From<$operation> for Kind {
            fn from(operation: $operation) -> Kind {
                Kind::$name(operation)
            }
        })*
    };
}

operations! {
    Leaf(Leaf),
    Input(Input),
    Fill(Fill),
    Iota(Iota),
    Random(Random),
    Copy(Copy),
    Cast(Cast),
    Unary(Unary),
    Binary(Binary),
    Select(Select),
    Reduce(Reduction),
    Scan(Scan),
    Contract(Contraction),
    Attention(Attention),
    Pad(Pad),
    Concat(Concat),
    Assign(Assign),
    Gather(Gather),
    Host(HostOutput),
}
