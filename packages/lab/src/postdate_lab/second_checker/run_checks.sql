-- Queries over the lines that belong to no tenant: faults and readiness.

-- check: I10
SELECT 'guest', 'a bound login ' || (data ->> 'did')
  FROM line
 WHERE who = 'nemesis' AND data ->> 'did' LIKE 'reached %' AND data ->> 'did' <> 'reached no table';

-- Probes in a row in which /readyz said one thing of reads or writes while the other was true: it
-- has five seconds and two time-outs to find out, and fifteen to say that something works again.
-- check: I13
WITH probe AS (
  SELECT data ->> 'url' AS url, data ->> 'asked' AS at, noun.value AS noun,
         (data -> 'said' ->> 'ready') AND (data -> 'said' ->> noun.value) AS said,
         data ->> substr(noun.value, 1, length(noun.value) - 1) AS worked
    FROM line JOIN json_each('["reads", "writes"]') AS noun WHERE op = 'readiness'),
stretch AS (
  SELECT *, row_number() OVER (PARTITION BY url, noun ORDER BY at)
          - row_number() OVER (PARTITION BY url, noun, said, worked ORDER BY at) AS number
    FROM probe)
SELECT url, 'said ' || said || ' of ' || noun || ' for ' || round(max(at) - min(at), 1) || ' s'
  FROM stretch WHERE said <> worked
 GROUP BY url, noun, said, worked, number
HAVING max(at) - min(at) > CASE said WHEN 1 THEN 8 ELSE 15 END;
