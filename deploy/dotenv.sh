#!/bin/sh
# Writes .env from .env.example, with a random password for each login, for docker-compose.yml.  A file that is there stays as it is.
set -eu
cd "$(dirname "$0")/.."
[ ! -e .env ] || exit 0
random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
umask 077
# The optional ones are off while they are empty.
while IFS= read -r line; do
  case $line in
    FLOWER_BASIC_AUTH=) line=${line}chorale:$(random) ;;
    REDIS_APPLICATION_PASSWORD= | REDIS_WRITER_PASSWORD= | REDIS_ADMIN_PASSWORD=) ;;
    [A-Z]*_PASSWORD= | WEAVIATE_API_KEY=) line=$line$(random) ;;
  esac
  printf '%s\n' "$line"
done <.env.example >.env.new
mv .env.new .env
