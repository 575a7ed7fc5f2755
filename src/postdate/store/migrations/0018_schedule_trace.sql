-- Which request asked for a version of a schedule: what the schedule makes is linked to it.
ALTER TABLE schedule_version ADD COLUMN traceparent text;
