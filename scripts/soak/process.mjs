/** What a process of this machine has, as Linux tells it. */
import { readdirSync, readFileSync } from 'node:fs'

/** Resident memory, and open file descriptors. */
export function look(pid) {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const rssMiB = Math.round(Number(/VmRSS:\s+(\d+)/.exec(status)[1]) / 1024)
  return { rssMiB, descriptors: readdirSync(`/proc/${pid}/fd`).length }
}

/** How many descriptors this process and its children may have. */
export function descriptorLimit() {
  const limits = readFileSync('/proc/self/limits', 'utf8')
  const hard = /Max open files\s+\S+\s+(\S+)/.exec(limits)[1]
  return hard === 'unlimited' ? Number.POSITIVE_INFINITY : Number(hard)
}
