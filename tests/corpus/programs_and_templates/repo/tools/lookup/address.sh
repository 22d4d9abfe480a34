. "$(dirname "$0")/names.sh"
