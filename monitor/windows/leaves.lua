-- The keys of leaves. This file is inserted before the text of the scripts that use them.
--
-- The people of a row are in leaves: sorted sets that are small enough for the server's compact encoding (listpack).
-- The leaves are those of a tree in which the children of node i are the nodes 4i - 2 … 4i + 1, by the next two bits of
-- the person's hash. Nodes are split in order of i. So the number of splits n determines the leaf of each person: the
-- leaves are the nodes n + 1 … 4n + 1. The Redis hash `leaves` has n by row; if the row is missing, n is 0. Counts do
-- not depend on n.
local SUFFIXES = setmetatable({''}, {__index = function(suffixes, leaf)  -- a cache, because Lua formats numbers slowly
  suffixes[leaf] = ':' .. leaf
  return suffixes[leaf]
end})

-- Return the key of a row's leaf. The caller passes the row as a string, to format it only once for many leaves.
local function leaf_key(prefix, row, leaf)
  return prefix .. 'w:' .. row .. SUFFIXES[leaf]
end
