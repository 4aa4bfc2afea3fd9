// Which Q? — what every page has. One file, so that a page is not held up by four.

import "./notation.js"
import "./symbols.js"
import "./scrollers.js"
import "./copy.js"
import "./box.js"
import "./tabs.js"
import "./opening.js"
import "./path.js"
