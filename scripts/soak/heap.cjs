/** Preloaded by a soak: on SIGUSR2, what is in use after a collection, as a line on standard error. */
process.on('SIGUSR2', () => {
  global.gc()
  const { heapUsed, external } = process.memoryUsage()
  process.stderr.write(`in use ${heapUsed + external}\n`)
})
