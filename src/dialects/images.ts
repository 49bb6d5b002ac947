/**
 * Whether there are images in a prompt, in any dialect: as a part of a message, or in what a tool gave.
 *
 * O(parts) up to the first one, nested contents included to a bounded depth.
 */
import { isObject, listOf } from './json.js'
import type { Dialect, Json } from './types.js'

const IMAGES: ReadonlySet<unknown> = new Set([
  ...['image', 'image_url', 'input_image', 'computer_screenshot'],
])
const MAX_DEPTH = 4

function hasImages(body: Json, items: Dialect['items']): boolean {
  return listOf(body[items]).some((item) => isImage(item, MAX_DEPTH))
}

function isImage(part: unknown, depth: number): boolean {
  if (!isObject(part) || depth === 0) return false
  if (IMAGES.has(part.type)) return true
  return [part.content, part.output].some((inner) =>
    Array.isArray(inner)
      ? inner.some((each) => isImage(each, depth - 1))
      : isImage(inner, depth - 1),
  )
}

export { hasImages }
