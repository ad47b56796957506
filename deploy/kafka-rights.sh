#!/usr/bin/env bash
# Set the rights of Kafka's users in compose.yaml (docs/operations.md, section "Access"). A right that exists stays.
# The names of topics and of the service are those of config.yaml.
set -euo pipefail
PATH=$PATH:/opt/kafka/bin

allow() {
  kafka-acls.sh --bootstrap-server kafka:9092 --command-config <(echo "$BROKER_LOGIN") --add "$@"
}

allow --allow-principal User:service --topic visits \
  --operation DescribeConfigs --operation Read --operation Create
allow --allow-principal User:service --topic safety-alerts \
  --operation DescribeConfigs --operation Read --operation Write --operation Create
allow --allow-principal User:service --topic visits.dead-letters \
  --operation DescribeConfigs --operation Write --operation Create
allow --allow-principal User:service --group town --resource-pattern-type prefixed --operation Read
allow --allow-principal User:service --transactional-id location-monitor. --resource-pattern-type prefixed \
  --operation Write

allow --allow-principal User:auditor --allow-principal User:page --allow-principal User:subscriber \
  --topic safety-alerts --operation Read
allow --allow-principal User:auditor --topic visits --operation Read
allow --allow-principal User:producer --topic visits --operation Write
