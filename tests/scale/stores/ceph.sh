# A Ceph object gateway from Debian's packages, in an overlay that goes with this process: the system is not changed.
# Run as root in name spaces of its own, whose first process this is, so that ending it ends every daemon:
#   unshare --mount --pid --fork --kill-child sh ceph.sh FOLDER S3_PORT MONITOR_PORT KEY SECRET
# Writes FOLDER/ready when it answers, and FOLDER/log all along.
set -e
folder=$1 s3=$2 monitor=$3 key=$4 secret=$5
exec >"$folder/log" 2>&1
mkdir -p "$folder/overlay"
mount -t tmpfs -o size=4g tmpfs "$folder/overlay"
mkdir "$folder/overlay/upper" "$folder/overlay/work" "$folder/overlay/root"
root=$folder/overlay/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$folder/overlay/upper,workdir=$folder/overlay/work" "$root"
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
mount --bind /sys "$root/sys"
# Packages must not start services here.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod +x "$root/usr/sbin/policy-rc.d"
chroot "$root" sh -c 'DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
  radosgw ceph-mon ceph-osd ceph-common curl || { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y \
  --no-install-recommends radosgw ceph-mon ceph-osd ceph-common curl; }' || { echo "no packages" >"$folder/failed"; exit 1; }

mkdir -p "$root/ceph/monitor" "$root/ceph/disk" "$root/ceph/run"
cluster=11111111-2222-3333-4444-555555555555 disk=22222222-2222-3333-4444-555555555555
cat >"$root/ceph/ceph.conf" <<SETTINGS
[global]
fsid = $cluster
mon_host = v1:127.0.0.1:$monitor
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
osd_pool_default_size = 1
osd_pool_default_min_size = 1
mon_allow_pool_size_one = true
osd_crush_chooseleaf_type = 0
osd_pool_default_pg_num = 8
osd_pool_default_pgp_num = 8
osd_objectstore = memstore
memstore_device_bytes = 2147483648
mon_data = /ceph/monitor
osd_data = /ceph/disk
keyring = /ceph/keyring
run_dir = /ceph/run
admin_socket = /ceph/run/\$name.asok
pid_file = /ceph/run/\$name.pid
log_file = /ceph/\$name.log
ms_bind_msgr2 = false
public_addr = 127.0.0.1
SETTINGS
cat >"$root/ceph/start.sh" <<START
set -e
use="-c /ceph/ceph.conf"
ceph-authtool --create-keyring /ceph/keyring --gen-key -n mon. --cap mon 'allow *'
ceph-authtool /ceph/keyring --gen-key -n client.admin --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *'
monmaptool --create --addv a '[v1:127.0.0.1:$monitor]' --fsid $cluster /ceph/monmap
ceph-mon \$use --mkfs -i a --monmap /ceph/monmap --keyring /ceph/keyring
ceph-mon \$use -i a
until ceph \$use --connect-timeout 5 status >/dev/null; do sleep 0.5; done
ceph \$use osd new $disk 0
ceph-osd \$use -i 0 --mkfs --osd-uuid $disk
# It asks the monitor before it knows which cluster that is, now and then, and is refused.
until ceph-osd \$use -i 0; do sleep 1; done
ceph \$use osd crush add osd.0 1.0 host=here root=default
radosgw \$use -n client.admin --rgw_frontends="beast endpoint=127.0.0.1:$s3" --rgw_run_sync_thread=false \
  --rgw_enable_usage_log=false --rgw_enable_quota_threads=false
until curl --silent --output /dev/null http://127.0.0.1:$s3/; do sleep 0.5; done
radosgw-admin \$use user create --uid=tests --display-name=tests --access-key=$key --secret=$secret >/dev/null
START
chroot "$root" sh /ceph/start.sh
touch "$folder/ready"
exec sleep infinity
