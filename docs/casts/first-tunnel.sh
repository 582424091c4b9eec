# What the cast of the first page shows; docs/casts/record runs and records it.
osm-lab vim-create --name lab
osm-lab vnfpkg-create dist/vpn_endpoint_vnf.tar.gz
osm-lab nspkg-create dist/vpn_basic_ns.tar.gz
osm-lab ns-create --ns_name vpn --nsd_name vpn_basic_ns --vim_account lab \
    --config_file dist/params/vpn_basic.yaml --wait
osm-lab links vpn
osm-lab lab capture vpn data /tmp/vpn.pcap --seconds 5 2>/dev/null &
sleep 1; osm-lab lab console vpn client -- ping -c 3 10.77.0.1
wait
tcpdump -nr /tmp/vpn.pcap 2>/dev/null
osm-lab ns-action vpn --vnf_name client --action_name measure-throughput \
    --params '{link: vpn-client, duration: 3}' --wait | grep mbps
osm-lab ns-action vpn --vnf_name server --action_name rotate-keys \
    --params '{link: vpn-server}' --wait | grep rotation
osm-lab links vpn
osm-lab ns-delete vpn --wait
