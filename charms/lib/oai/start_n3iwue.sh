#!/bin/sh
# The UE writes its sequence number (SQN) into its configuration when it authenticates, so it gets a
# copy. Without it, authentication fails.
set -eu
umask 077
cp /n3iwue/n3ue.yaml /n3iwue/config/n3ue.yaml
exec ./n3iwue
