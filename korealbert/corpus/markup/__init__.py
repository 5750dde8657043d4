"""Wiki markup to text: MediaWiki and namumark."""
