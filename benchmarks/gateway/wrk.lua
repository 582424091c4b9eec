-- wrk prints its results as JSON.
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format('\n{"requests":%d,"bytes":%d,"us":%d,', summary.requests,
    summary.bytes, summary.duration))
  io.write(string.format('"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d', e.connect,
    e.read, e.write, e.status, e.timeout))
  for _, q in ipairs({50, 90, 99, 99.9}) do
    io.write(string.format(',"p%g":%.1f', q, latency:percentile(q)))
  end
  io.write('}\n')
end
