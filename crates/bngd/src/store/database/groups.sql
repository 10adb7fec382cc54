-- The group of a subscriber, which rules of filters and metrics of the node name.
ALTER TABLE subscribers ADD COLUMN group_name TEXT;
