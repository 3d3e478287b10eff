-- Pages that were asked for and not found.
CREATE MATERIALIZED VIEW missing AS
SELECT page, count(*) AS requests
FROM requests
WHERE status = 404
GROUP BY page
