//! Addresses that are anybody's: where a stranger may send us, and where not.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Finds the addresses of a name, and leaves out those that are nobody's but ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Public {
    /// Whether this machine counts as public.
    pub(crate) local: bool,
}

impl Resolve for Public {
    fn resolve(&self, name: Name) -> Resolving {
        let local = self.local;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let may = |address: &SocketAddr| is_public(address.ip()) || (local && address.ip().is_loopback());
            let found: Vec<SocketAddr> = found.filter(may).collect();
            if found.is_empty() {
                return Err("the name has no public address".into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// Whether an address is anybody's on the internet, and none of a private network (RFC 6890).
pub(crate) fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            let [a, b, c, _] = ip.octets();
            let reserved = match a {
                0 | 10 | 127 => true,
                100 => (64..128).contains(&b),
                169 => b == 254,
                172 => (16..32).contains(&b),
                192 => b == 168 || (b == 0 && (c == 0 || c == 2)) || (b == 88 && c == 99),
                198 => b == 18 || b == 19 || (b == 51 && c == 100),
                203 => b == 0 && c == 113,
                _ => a >= 224,
            };
            !reserved
        }
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

/// Of the new addresses only those that are given out, and none that carries an old one within it.
fn is_public_v6(ip: Ipv6Addr) -> bool {
    let [a, b, ..] = ip.segments();
    let given_out = a & 0xe000 == 0x2000;
    let special = a == 0x2002
        || (a == 0x2001 && b < 0x200)
        || (a == 0x2001 && b == 0xdb8)
        || (a == 0x3fff && b < 0x1000);
    given_out && !special
}
