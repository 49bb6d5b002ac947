/** The floor: a plain node:http pipe to one address, as anybody writes it. Tells its own address. */
import { Agent, createServer, request } from 'node:http'

const [target] = process.argv.slice(2)
const agent = new Agent({ keepAlive: true })

const server = createServer({ keepAliveTimeout: 600_000 }, (req, res) => {
  const { method, url, headers } = req
  const up = request(target + url, { method, headers, agent }, (answer) => {
    res.writeHead(answer.statusCode, answer.headers)
    answer.pipe(res)
  })
  up.on('error', () => res.destroy())
  res.on('close', () => up.destroy())
  req.pipe(up)
})
server.listen(0, '127.0.0.1', () => process.send(`http://127.0.0.1:${server.address().port}`))
process.on('disconnect', () => process.exit())
