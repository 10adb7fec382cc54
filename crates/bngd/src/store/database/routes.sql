-- Networks behind subscribers, and the pools that their addresses and prefixes are of.

ALTER TABLE subscribers ADD COLUMN routes TEXT;      -- route 203.0.113.0/28 route 2001:db8:9::/56; NULL: none
ALTER TABLE subscribers ADD COLUMN pool TEXT;        -- of its addresses; NULL: any
ALTER TABLE subscribers ADD COLUMN prefix_pool TEXT; -- of its prefixes; NULL: any
