//! Where is a publisher, and who connects to whom?
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};

/// A TCP address as ZeroMQ writes it: `tcp://host:port`, or `tcp://*:port` to be connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    host: String,
    port: u16,
}

/// Why a text is no endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointError {
    /// It does not begin with `tcp://`.
    Transport,
    /// It has no host, or no port from 1 to 65,535.
    Address,
    /// The ports of its ranks do not exist.
    Ranks,
}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Transport => "must begin with tcp://",
            Self::Address => "must have a host and a port from 1 to 65535",
            Self::Ranks => "has no port left for each rank",
        })
    }
}

impl std::error::Error for EndpointError {}

impl Endpoint {
    /// Reads an endpoint.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, EndpointError> {
        let rest = text
            .strip_prefix("tcp://")
            .ok_or(EndpointError::Transport)?;
        let (host, port) = rest.rsplit_once(':').ok_or(EndpointError::Address)?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = port.parse().ok().filter(|&port| port > 0);
        let port = port.ok_or(EndpointError::Address)?;
        if host.is_empty() || host.contains(['/', ' ', '@']) {
            return Err(EndpointError::Address);
        }
        Ok(Self {
            host: host.to_owned(),
            port,
        })
    }

    /// That of a data-parallel rank: its port follows those of the ranks before it.
    ///
    /// # Errors
    /// When there is no such port.
    pub fn of_rank(&self, rank: u32) -> Result<Self, EndpointError> {
        let rank = u16::try_from(rank).ok();
        let port = rank.and_then(|rank| self.port.checked_add(rank));
        Ok(Self {
            host: self.host.clone(),
            port: port.ok_or(EndpointError::Ranks)?,
        })
    }

    /// Whether publishers connect here, instead of being connected to.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        matches!(self.host.as_str(), "*" | "::" | "0.0.0.0")
    }

    /// The address to connect to or to listen at. Asks the system's resolver for names.
    pub(crate) fn address(&self) -> std::io::Result<SocketAddr> {
        let host = match self.host.as_str() {
            "*" => "0.0.0.0",
            host => host,
        };
        let found = (host, self.port).to_socket_addrs()?.next();
        found.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotFound))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "tcp://[{}]:{}", self.host, self.port),
            false => write!(f, "tcp://{}:{}", self.host, self.port),
        }
    }
}
