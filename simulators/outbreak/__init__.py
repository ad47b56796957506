"""An epidemic as an agency published it, through the service and through other private ways (docs/outbreak.md)."""
