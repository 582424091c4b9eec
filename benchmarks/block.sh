# Block the modules of WireGuard and ESP in a virtual machine.
printf 'install %s /bin/false\n' wireguard esp4 esp6 xfrm_interface >/etc/modprobe.d/bench.conf
ip xfrm state flush
ip xfrm policy flush
rmmod wireguard esp4 xfrm_interface 2>/dev/null
rm -f /run/osm-vpnaas-esp /run/osm-vpnaas-xfrm
! ip link add vpnaas-bench type wireguard 2>/dev/null
