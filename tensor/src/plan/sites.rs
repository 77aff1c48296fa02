//! The devices of a plan.

use millstream_core::Device;

/// Where the devices of a plan come from when it runs. The first is always [`Site::Main`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Site {
    /// The device for which the graph is evaluated.
    Main,
    /// One of the other devices that the graph's tensors name, by its number in the capture.
    Other(usize),
    /// The host.
    Host,
}

/// The devices of a plan. Nodes and steps name them by their numbers here.
#[derive(Clone, Debug)]
pub(crate) struct Sites {
    pub sites: Vec<Site>,
    pub devices: Vec<Device>,
}

impl Sites {
    /// The devices that a graph's tensors name: the one for which it is evaluated, and the others.
    pub fn new(main: &Device, others: &[Device]) -> Sites {
        let mut sites = Sites { sites: vec![Site::Main], devices: vec![main.clone()] };
        for (i, other) in others.iter().enumerate() {
            sites.number(Site::Other(i), other);
        }
        sites
    }

    /// The number of a device that is there.
    pub fn find(&self, device: &Device) -> usize {
        self.devices.iter().position(|d| d.same(device)).unwrap_or(0)
    }

    /// The number of a device, which is added where it is new.
    pub fn number(&mut self, site: Site, device: &Device) -> usize {
        self.devices.iter().position(|d| d.same(device)).unwrap_or_else(|| {
            self.sites.push(site);
            self.devices.push(device.clone());
            self.devices.len() - 1
        })
    }

    /// The number of the host, which is added where it is new.
    pub fn host(&mut self) -> usize {
        let host = self.devices[0].host();
        self.number(Site::Host, &host)
    }
}
